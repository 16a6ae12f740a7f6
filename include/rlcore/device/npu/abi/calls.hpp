// Function tables of AscendCL, aclnn and HCCL. The four lists *.inc are the only place where a function is named: the
// tables, the loader, the emulator's conformance, the tracer and the check against the vendor's headers are generated
// from them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlcore/device/npu/abi/types.hpp"

RLCORE_BEGIN
namespace ascend {

/// The two functions of an operator: `plan` checks the arguments on the host and returns the workspace size of the run;
/// `run` enqueues, once per executor.
template <class... Arguments>
struct operator_call {
  const char* name = nullptr;
  aclnnStatus (*plan)(Arguments..., std::uint64_t*, aclOpExecutor**) = nullptr;
  aclnnStatus (*run)(void*, std::uint64_t, aclOpExecutor*, aclrtStream) = nullptr;
  explicit operator bool() const noexcept { return plan != nullptr && run != nullptr; }
};

// The argument types of operators.inc.
using input = const aclTensor*;           ///< a tensor that is read
using output = aclTensor*;                ///< a tensor that is written
using scalar = const aclScalar*;          ///< a number
using ints = const aclIntArray*;          ///< a list of numbers
using input_list = const aclTensorList*;  ///< tensors that are read
using text = char*;                       ///< characters, as the vendor declares them

#define RLCORE_NPU_CALL(name, need, result, parameters) result(*name) parameters = nullptr;
#define RLCORE_NPU_OPERATOR(name, need, ...) operator_call<__VA_ARGS__> name{#name, nullptr, nullptr};

/// AscendCL's runtime: runtime.inc.
struct runtime_calls {
#include "rlcore/device/npu/abi/runtime.inc"
};
/// The functions that create and destroy operator arguments: meta.inc.
struct meta_calls {
#include "rlcore/device/npu/abi/meta.inc"
};
/// The operators, two functions each: operators.inc.
struct operator_calls {
#include "rlcore/device/npu/abi/operators.inc"
};
/// HCCL: collectives.inc.
struct collective_calls {
#include "rlcore/device/npu/abi/collectives.inc"
};

#undef RLCORE_NPU_CALL
#undef RLCORE_NPU_OPERATOR

/// All functions that rlcore calls. A pointer is null if the provider of the table lacks the function.
struct calls {
  runtime_calls rt;
  meta_calls nn;
  operator_calls op;
  collective_calls comm;
};

}  // namespace ascend
RLCORE_END
