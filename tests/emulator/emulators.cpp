// The emulator as the tests of this folder use it, compiled once.
#include "rlcore/emulator/emulated_npu.hpp"

#include "device/npu/emulated_npu.hpp"
#include "emulator/operators_fixture.hpp"
#include "support/emulated_queue.hpp"

const rlcore::ascend::calls& configured_emulator(rlcore::ascend::emulated::settings machine) {
  machine.memory_bytes = std::size_t{256} << 20;
  machine.poison_bytes = std::size_t{1} << 20;
  static const rlcore::ascend::emulator provider;
  rlcore::ascend::emulated::configure(std::move(machine));
  return provider.calls();
}

namespace rlcore_test {

const ascend::calls& emulated_calls(int cann_version, std::uint64_t seed) {
  ascend::emulated::settings s;
  s.cann_version = cann_version;
  s.seed = seed;
  static const ascend::emulator provider;
  ascend::emulated::configure(s);
  return provider.calls();
}

}  // namespace rlcore_test

namespace npu_test {

const ascend::calls& emulated_table() { return ascend::emulator().calls(); }

}  // namespace npu_test
