// expected: rlcore: the KL penalty is in the reward and in the loss
#include "rlcore/objective/advantage/token_rewards.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"

namespace RLCORE_TEST_ID {

auto both() {
  const auto in_reward = rlcore::with_kl_in_reward(rlcore::paper::dapo(), rlcore::kl_in_reward{});
#ifdef RLCORE_SHOULD_FAIL
  return rlcore::with_kl(in_reward, 0.04);
#else
  return in_reward;
#endif
}

}  // namespace RLCORE_TEST_ID
