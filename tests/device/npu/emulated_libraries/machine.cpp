// The emulator as a library of its own, behind the libraries that pretend to be CANN: its state is not that of an
// emulator in the program.
#include "rlcore/emulator/emulated_npu.hpp"

extern "C" __attribute__((visibility("default"))) const rlcore::ascend::calls* rlcore_emulated_calls() {
  return &rlcore::ascend::emulator().calls();
}
