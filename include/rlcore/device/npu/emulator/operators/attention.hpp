// Flash attention over packed sequences.
#pragma once

#include <cstdint>

#include "rlcore/device/npu/emulator/execution.hpp"
#include "rlcore/device/npu/emulator/plan.hpp"

RLCORE_BEGIN
namespace ascend::emulated::plans {

inline kernel aclnnFlashAttentionVarLenScore(planner& p, input, input, input, input, input, input, input, ints, ints,
                                             ints, double, double, std::int64_t, std::int64_t, std::int64_t, text,
                                             std::int64_t, std::int64_t, output, output, output, output) {
  p.refuse(no_kernel, "not emulated yet");
}
inline kernel aclnnFlashAttentionUnpaddingScoreGrad(planner& p, input, input, input, input, input, input, input, input,
                                                    input, input, input, input, ints, ints, ints, double, double,
                                                    std::int64_t, std::int64_t, std::int64_t, text, std::int64_t,
                                                    std::int64_t, output, output, output, output) {
  p.refuse(no_kernel, "not emulated yet");
}

}  // namespace ascend::emulated::plans
RLCORE_END
