// expected: rlcore: the element type of this container differs from the batch's
#include <vector>

#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

#ifdef RLCORE_SHOULD_FAIL
using advantages = std::vector<double>;
#else
using advantages = std::vector<float>;
#endif

rlcore::token_batch<float> batch(const std::vector<float>& logp, const advantages& advantage) {
  return {.logp = logp, .advantage = advantage};
}

}  // namespace RLCORE_TEST_ID
