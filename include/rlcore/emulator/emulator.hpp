// Ascend NPU emulator in the process: a provider that needs neither CANN nor hardware. Its functions are slow to
// compile: with RLCORE_COMPILED they come from src/devices.cpp.
#pragma once

#include <string>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/npu/abi/calls.hpp"
#include "rlcore/device/npu/provider.hpp"
#include "rlcore/emulator/machine.hpp"

RLCORE_BEGIN
namespace ascend {

namespace emulated {

/// The functions of the emulated machine: runtime, operators, collectives.
const ascend::calls& every_call();

}  // namespace emulated

/// A provider. Each process has one emulated machine; emulated::last_report() lists the objects that a program did not
/// release. docs/npu_proof.md lists what it models and what it does not.
class emulator {
 public:
  /// The machine as last configured; by default emulated::settings.
  emulator() = default;
  /// Configures the machine. Throws config_error while it is initialised with other settings.
  explicit emulator(emulated::settings s) { emulated::configure(std::move(s)); }

  std::string name() const { return "emulator of " + emulated::machine_settings().soc; }
  const ascend::calls& calls() const { return emulated::every_call(); }
};
static_assert(provider<emulator>);

}  // namespace ascend
RLCORE_END

#if !defined(RLCORE_COMPILED)
#include "rlcore/emulator/every_call.hpp"
#endif
