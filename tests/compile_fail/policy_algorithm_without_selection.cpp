// needs: train
// expected: rlcore: the policy loop offers logp, old_logp, rollout_logp, ref_logp, advantage and entropy, and selected
#include "rlcore/objective/algorithm/ppo.hpp"
#include "rlcore/objective/selection/tokens.hpp"
#include "rlcore/train/policy/algorithm/any_algorithm.hpp"

namespace RLCORE_TEST_ID {

auto reads() {
#ifdef RLCORE_SHOULD_FAIL
  return rlcore::train::any_algorithm(rlcore::paper::clip_cov()).reads();
#else
  return rlcore::train::any_algorithm(rlcore::paper::clip_cov(), rlcore::clip_covariance{}).reads();
#endif
}

}  // namespace RLCORE_TEST_ID
