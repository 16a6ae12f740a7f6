// Matrix products.
#pragma once

#include <cstdint>

#include "rlcore/device/npu/emulator/execution.hpp"
#include "rlcore/device/npu/emulator/plan.hpp"

RLCORE_BEGIN
namespace ascend::emulated::plans {

inline kernel aclnnMatmul(planner& p, input, input, output, cube_math) { p.refuse(no_kernel, "not emulated yet"); }
inline kernel aclnnBatchMatMul(planner& p, input, input, output, cube_math) { p.refuse(no_kernel, "not emulated yet"); }
inline kernel aclnnGroupedMatmulAdd(planner& p, input, input, input, output, bool, bool, std::int64_t) {
  p.refuse(no_kernel, "not emulated yet");
}

}  // namespace ascend::emulated::plans
RLCORE_END
