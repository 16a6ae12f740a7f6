// Token rewards for an estimator that wants one reward per row.
// expected: rlcore: this estimator takes a vector with one value per row; sum the rewards of tokens with row_totals
#include <vector>

#include "rlcore/objective/advantage/rloo.hpp"

namespace RLCORE_TEST_ID {

void advantages() {
  std::vector<float> rewards(8), advantages(8);
#ifdef RLCORE_SHOULD_FAIL
  rlcore::rloo{}(rlcore::matrix(rewards, 2, 4), 2, advantages);
#else
  rlcore::rloo{}(rewards, 2, advantages);
#endif
}

}  // namespace RLCORE_TEST_ID
