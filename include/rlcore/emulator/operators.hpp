// Operator tables of the emulator, in the form of abi/calls.hpp.
#pragma once

#include "rlcore/device/npu/abi/calls.hpp"
#include "rlcore/emulator/executor.hpp"
#include "rlcore/emulator/meta.hpp"
#include "rlcore/emulator/operators/attention.hpp"
#include "rlcore/emulator/operators/elementwise.hpp"
#include "rlcore/emulator/operators/indexing.hpp"
#include "rlcore/emulator/operators/layers.hpp"
#include "rlcore/emulator/operators/movement.hpp"
#include "rlcore/emulator/operators/optimizer.hpp"
#include "rlcore/emulator/operators/order.hpp"
#include "rlcore/emulator/operators/products.hpp"
#include "rlcore/emulator/operators/reductions.hpp"
#include "rlcore/emulator/operators/rope.hpp"
#include "rlcore/emulator/operators/softmax.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

namespace names {
#define RLCORE_NPU_OPERATOR(name, need, ...)   \
  struct name {                                \
    static constexpr const char* text = #name; \
  };
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
}  // namespace names

/// Every operator of the list; a row without a plan, or with one of other types, does not compile.
inline void fill(operator_calls& table) {
#define RLCORE_NPU_OPERATOR(name, need, ...)                      \
  table.name.plan = &two_phases<names::name, &plans::name>::plan; \
  table.name.run = &two_phases<names::name, &plans::name>::run;
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
}

/// The functions that create and destroy operator arguments.
inline void fill(meta_calls& table) {
#define RLCORE_NPU_CALL(name, need, result, parameters) table.name = &meta::name;
#include "rlcore/device/npu/abi/meta.inc"
#undef RLCORE_NPU_CALL
}

}  // namespace ascend::emulated
RLCORE_END
