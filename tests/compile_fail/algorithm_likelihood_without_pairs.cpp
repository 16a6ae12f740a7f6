// expected: rlcore: with_likelihood adds the likelihood of the chosen answers to a loss of pairs
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/algorithm/dpo.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"

namespace RLCORE_TEST_ID {

auto regularised() {
#ifdef RLCORE_SHOULD_FAIL
  return rlcore::with_likelihood(rlcore::paper::dapo(), 1.0);
#else
  return rlcore::with_likelihood(rlcore::paper::dpo(), 1.0);
#endif
}

}  // namespace RLCORE_TEST_ID
