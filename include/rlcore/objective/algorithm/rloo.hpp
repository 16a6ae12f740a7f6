// RLOO: REINFORCE leave-one-out.
#pragma once

#include "rlcore/objective/advantage/rloo.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// RLOO (Ahmadian et al. 2024): the mean of the prompt's remaining answers as baseline; REINFORCE on whole sequences.
/// The KL penalty is in the reward.
constexpr auto rloo(rlcore::rloo advantage = {}) {
  return algorithm{advantage, policy_gradient{}, sequence_mean_token_sum{}};
}

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
