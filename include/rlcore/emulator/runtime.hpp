// Runtime functions (acl, aclrt) of the emulator.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/device/npu/abi/calls.hpp"
#include "rlcore/emulator/runtime_memory.hpp"
#include "rlcore/emulator/runtime_process.hpp"
#include "rlcore/emulator/runtime_streams.hpp"
#include "rlcore/emulator/tasks.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// Fills the table. Does not compile if the emulator lacks a function of the list or has it with other parameters.
inline void fill(runtime_calls& table) {
#define RLCORE_NPU_CALL(name, need, result, parameters) table.name = &emulated::name;
#include "rlcore/device/npu/abi/runtime.inc"
#undef RLCORE_NPU_CALL
}

}  // namespace ascend::emulated
RLCORE_END
