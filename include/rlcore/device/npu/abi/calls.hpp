// Function tables of AscendCL, aclnn and HCCL. The four lists *.inc are the only place where a function is named: the
// tables, the loader, the emulator's conformance, the tracer and the check against the vendor's headers are generated
// from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

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

/// A CANN that lacks functions of every_run is refused; any other missing function is an error at its first call.
enum class feature : unsigned char {
  every_run,    ///< memory, streams, layers, rows and log-probs
  generation,   ///< tokens drawn from logits
  training,     ///< backward passes
  loss,         ///< losses whose arrays stay on the device
  composition,  ///< fallback if a fused operator is missing or does not support a shape
  fused,        ///< a fused operator with a composed fallback
  collectives,  ///< ranks that HCCL connects
  optional,     ///< used if present
  later         ///< nothing calls it yet
};

/// The name of the feature in messages: "every run", "a rank on HCCL".
constexpr std::string_view name_of(feature f) {
  switch (f) {
    case feature::every_run:
      return "every run";
    case feature::generation:
      return "generation";
    case feature::training:
      return "training";
    case feature::loss:
      return "a loss on the device";
    case feature::composition:
      return "the stand-in for a fused operator";
    case feature::fused:
      return "a fused kernel";
    case feature::collectives:
      return "a rank on HCCL";
    case feature::optional:
      return "messages";
    default:
      return "nothing yet";
  }
}

/// The feature of an operator; feature::later for a name that is in no list.
constexpr feature feature_of(std::string_view name) {
#define RLCORE_NPU_OPERATOR(row, need, ...) \
  if (name == #row) return feature::need;
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
  return feature::later;
}

/// "npu: CANN 8.1.RC1, Ascend910B3 lacks aclnnSort, which generation needs".
inline std::string lack_text(std::string_view provider, std::string_view names, feature f) {
  return "npu: " + std::string(provider) + " lacks " + std::string(names) + ", which " + std::string(name_of(f)) +
         " needs";
}

/// The names of the operators and collectives that a feature needs and the table lacks, comma-separated; empty if none.
inline std::string missing_functions(const calls& table, feature f) {
  std::string names;
  const auto see = [&](std::string_view name, feature need, bool found) {
    if (need == f && !found) names += (names.empty() ? "" : ", ") + std::string(name);
  };
#define RLCORE_NPU_OPERATOR(name, need, ...) see(#name, feature::need, static_cast<bool>(table.op.name));
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
#define RLCORE_NPU_CALL(name, need, result, parameters) see(#name, feature::need, table.comm.name != nullptr);
#include "rlcore/device/npu/abi/collectives.inc"
#undef RLCORE_NPU_CALL
  return names;
}

}  // namespace ascend
RLCORE_END
