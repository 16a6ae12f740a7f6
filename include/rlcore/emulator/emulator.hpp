// A machine with Ascend devices, emulated in the process: a provider that needs neither CANN nor hardware. Its
// functions are slow to compile: with RLCORE_COMPILED they are those of src/devices.cpp.
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

/// A provider. There is one emulated machine per process; emulated::last_report() tells what a program forgot to
/// release. What it models and what not: docs/npu_proof.md.
class emulator {
 public:
  /// The machine as it was configured last, or as emulated::settings has it.
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
