// Definition of the function table of emulator.hpp: the whole emulator.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/device/npu/abi/calls.hpp"
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
