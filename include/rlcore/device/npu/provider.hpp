// Who provides Ascend's functions: CANN's libraries or the emulator.
#pragma once

#include <concepts>
#include <string_view>

#include "rlcore/device/npu/abi/calls.hpp"

RLCORE_BEGIN
namespace ascend {

/// A provider is a value whose table of functions stays valid for the rest of the process. Everything above it is the
/// same machine code whoever provides: what tests run on the emulator is what runs on an Atlas machine.
template <class P>
concept provider = requires(const P& p) {
  { p.name() } -> std::convertible_to<std::string_view>;  // "CANN 8.3.RC1, Ascend910B3" or "emulator of Ascend910B3"
  { p.calls() } -> std::same_as<const ascend::calls&>;
};

}  // namespace ascend
RLCORE_END
