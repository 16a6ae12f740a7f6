// expected: rlcore: name the array that receives the gradient: evaluate.grpo, batch, {.logp = dlogp}.
#include <vector>

#include "rlcore/losses.hpp"

namespace RLCORE_TEST_ID {

double loss(const rlcore::token_batch<float>& batch, std::vector<float>& dlogp) {
#ifdef RLCORE_SHOULD_FAIL
  return evaluate(rlcore::paper::grpo(), batch, dlogp).loss();
#else
  return evaluate(rlcore::paper::grpo(), batch, {.logp = dlogp}).loss();
#endif
}

}  // namespace RLCORE_TEST_ID
