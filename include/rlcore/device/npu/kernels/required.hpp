// Which operators the npu device cannot do without.
#pragma once

#include <string>
#include <string_view>

#include "rlcore/device/npu/abi/calls.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

/// The names of required operators that the table lacks, with commas; empty if there is none.
inline std::string missing_operators(const calls& table) {
  std::string names;
  const auto see = [&](std::string_view name, std::string_view need, bool there) {
    if (need == "required" && !there) names += (names.empty() ? "" : ", ") + std::string(name);
  };
#define RLCORE_NPU_OPERATOR(name, need, ...) see(#name, #need, static_cast<bool>(table.op.name));
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
  return names;
}

}  // namespace ascend::kernels
RLCORE_END
