// Ascend NPU emulator in the process: a provider that needs neither CANN nor hardware, and the device on it. Its
// functions are slow to compile: with RLCORE_COMPILED they come from src/emulator.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/device/npu.hpp"
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

namespace ascend::emulated {

/// The properties of a chip that determine its summation order and its memory.
struct chip {
  std::string_view name;  ///< as aclrtGetSocName returns it
  int cores = 0;          ///< cube cores; the chip has twice as many vector cores
  int memory_gib = 0;
};

/// Atlas A2 and one die of A3, as the files of CANN 8.1's platform_config have them.
inline std::span<const chip> chips() noexcept {
  static constexpr chip table[] = {{"Ascend910B1", 24, 64},    {"Ascend910B2", 24, 64},    {"Ascend910B2C", 24, 64},
                                   {"Ascend910B3", 20, 64},    {"Ascend910B4", 20, 32},    {"Ascend910B4-1", 20, 32},
                                   {"Ascend910_9391", 24, 64}, {"Ascend910_9392", 24, 64}, {"Ascend910_9381", 24, 64},
                                   {"Ascend910_9382", 24, 64}, {"Ascend910_9372", 20, 64}, {"Ascend910_9362", 20, 32}};
  return table;
}

/// The chip of this name, or nullptr.
inline const chip* find_chip(std::string_view name) noexcept {
  for (const chip& c : chips())
    if (c.name == name) return &c;
  return nullptr;
}

}  // namespace ascend::emulated

/// An npu on ascend::emulator: `emulated_npu device;` is device 0 of the machine as last configured. For tests, and to
/// try a program without NPU hardware; its speed is not representative.
class emulated_npu : public npu {
 public:
  /// Throws npu_error if the emulated machine does not have the device.
  explicit emulated_npu(npu_settings settings = {}) : npu(ascend::emulator(), settings) {}
};
static_assert(device<emulated_npu>);
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
