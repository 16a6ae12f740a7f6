// Ascend NPU emulator in the process: a provider that needs neither CANN nor hardware. Its functions are slow to
// compile: with RLCORE_COMPILED they come from src/emulator.cpp.
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

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
#include "rlcore/core/compiler.hpp"
#include "rlcore/emulator/collectives.hpp"
#include "rlcore/emulator/operators.hpp"
#include "rlcore/emulator/runtime.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

RLCORE_INLINE const ascend::calls& every_call() {
  static const ascend::calls table = [] {
    ascend::calls t;
    fill(t.rt);
    fill(t.nn);
    fill(t.op);
    fill(t.comm);
    return t;
  }();
  return table;
}

}  // namespace ascend::emulated
RLCORE_END
#endif
