// Policy gradients without a clip: the baseline makes the difference.
#pragma once

#include "rlcore/objective/advantage/gpg.hpp"
#include "rlcore/objective/advantage/opo.hpp"
#include "rlcore/objective/advantage/remax.hpp"
#include "rlcore/objective/advantage/rloo.hpp"
#include "rlcore/objective/aggregation/sequence_mean_token_sum.hpp"
#include "rlcore/objective/aggregation/token_mean.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/piece/surrogate/policy_gradient.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// RLOO (Ahmadian et al. 2024): the mean of the other answers as baseline; REINFORCE on whole sequences. The KL penalty
/// is in the reward.
constexpr auto rloo(rlcore::rloo advantage = {}) {
  return algorithm{advantage, policy_gradient{}, sequence_mean_token_sum{}};
}

/// ReMax (Li et al. 2024): the reward of the greedy answer as baseline; REINFORCE on whole sequences.
constexpr auto remax(rlcore::remax advantage = {}) {
  return algorithm{advantage, policy_gradient{}, sequence_mean_token_sum{}};
}

/// OPO (Hao et al. 2025): the length-weighted mean of the group as baseline, exactly on policy.
constexpr auto opo(rlcore::opo advantage = {}) {
  return algorithm{advantage, policy_gradient{}, sequence_mean_token_sum{}};
}

/// GPG (Chu et al. 2025): group mean as baseline, made up for groups without a signal; the mean over all tokens.
constexpr auto gpg(rlcore::gpg advantage = {}) { return algorithm{advantage, policy_gradient{}, token_mean{}}; }

}  // namespace paper
RLCORE_ALGORITHM_END
RLCORE_END
