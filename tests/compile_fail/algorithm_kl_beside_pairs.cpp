// expected: rlcore: this algorithm is a loss of sequences or pairs, and a piece of tokens has another denominator
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/algorithm/dpo.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"

namespace RLCORE_TEST_ID {

auto penalised() {
#ifdef RLCORE_SHOULD_FAIL
  return rlcore::with_kl(rlcore::paper::dpo(), 0.1);
#else
  return rlcore::with_kl(rlcore::paper::dapo(), 0.1);
#endif
}

}  // namespace RLCORE_TEST_ID
