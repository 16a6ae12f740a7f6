// All fields of a batch hold one type: log-probs in double do not slip into a float batch by a silent copy.
// expected: rlcore: the element type of this container differs from the batch's
#include <vector>

#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

int main() {
#ifdef RLCORE_SHOULD_FAIL
  const std::vector<double> logp(4);
#else
  const std::vector<float> logp(4);
#endif
  const rlcore::token_batch<float> batch{.logp = logp};
  return batch.logp.present() ? 0 : 1;
}

}  // namespace RLCORE_TEST_ID
