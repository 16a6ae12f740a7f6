// ReMax, OPO, GPG: REINFORCE without a clip, with different baselines.
#pragma once

#include "rlcore/objective/advantage/rloo.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// ReMax (Li et al. 2024): the reward of the greedy answer as baseline; REINFORCE on whole sequences.
constexpr auto remax(rlcore::remax advantage = {}) {
  return algorithm{advantage, policy_gradient{}, sequence_mean_token_sum{}};
}

/// OPO (Hao et al. 2025): the length-weighted mean of the group as baseline, exactly on policy.
constexpr auto opo(rlcore::opo advantage = {}) {
  return algorithm{advantage, policy_gradient{}, sequence_mean_token_sum{}};
}

/// GPG (Chu et al. 2025): group mean as baseline, rescaled for groups without a signal; the mean over all tokens.
constexpr auto gpg(rlcore::gpg advantage = {}) { return algorithm{advantage, policy_gradient{}, token_mean{}}; }

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
