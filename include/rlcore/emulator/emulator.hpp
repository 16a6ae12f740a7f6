// A machine with Ascend devices, emulated in the process: a provider that needs neither CANN nor hardware.
#pragma once

#include <string>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/npu/abi/calls.hpp"
#include "rlcore/device/npu/provider.hpp"
#include "rlcore/emulator/collectives.hpp"
#include "rlcore/emulator/operators.hpp"
#include "rlcore/emulator/runtime.hpp"

RLCORE_BEGIN
namespace ascend {

/// A provider. There is one emulated machine per process; emulated::last_report() tells what a program forgot to
/// release. What it models and what not: docs/npu_proof.md.
class emulator {
 public:
  /// The machine as it was configured last, or as emulated::settings has it.
  emulator() = default;
  /// Configures the machine. Throws config_error while it is initialised with other settings.
  explicit emulator(emulated::settings s) { emulated::configure(std::move(s)); }

  std::string name() const { return "emulator of " + emulated::machine_settings().soc; }
  const ascend::calls& calls() const {
    static const ascend::calls table = [] {
      ascend::calls t;
      emulated::fill(t.rt);
      emulated::fill(t.nn);
      emulated::fill(t.op);
      emulated::fill(t.comm);
      return t;
    }();
    return table;
  }
};
static_assert(provider<emulator>);

}  // namespace ascend
RLCORE_END
