// needs: train
// expected: rlcore: the policy loop minimises objectives of tokens
#include "rlcore/objective/algorithm/dpo.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/train/policy/algorithm/any_algorithm.hpp"

namespace RLCORE_TEST_ID {

auto in_the_loop() {
#ifdef RLCORE_SHOULD_FAIL
  const auto algorithm = rlcore::paper::dpo();
#else
  const auto algorithm = rlcore::paper::dapo();
#endif
  return rlcore::train::any_algorithm(algorithm).reads();
}

}  // namespace RLCORE_TEST_ID
