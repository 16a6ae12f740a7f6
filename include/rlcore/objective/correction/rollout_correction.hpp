// A rollout correction: which policy is corrected, by what weight, and what is rejected.
#pragma once

#include <tuple>

#include "rlcore/objective/correction/gate.hpp"
#include "rlcore/objective/piece/field.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// The policy at the start of the step: token_batch::old_logp. Three policies are involved (decoupled mode).
struct proximal_policy {
  static constexpr field train = field::old_logp;
};
/// The policy as it is now: token_batch::logp. There is no proximal policy (bypass mode).
struct current_policy {
  static constexpr field train = field::logp;
};

/// Weights of a policy over the rollout policy, and the gates that all have to be open for a token to be trained on.
/// Made by decoupled() or bypass(), carried out by correct().
template <class Train, class Weight, class... Gates>
struct rollout_correction {
  using train_policy = Train;
  Weight weight;
  std::tuple<Gates...> reject_unless;
  /// A NaN rollout log-prob means that the sampler gave none: the token then counts as if both policies agreed (TRL).
  /// Otherwise NaN is what its weight becomes, and no gate lets it through.
  bool unscored_is_equal = false;
};

/// Corrects old_logp over rollout_logp. The objective keeps its ratio logp over old_logp, and is weighted{}.
///
///   decoupled(importance_weight{summed_over_sequence{}, truncated{2}})
///   decoupled(no_weight{}, ratio_within<mean_over_sequence>(rollout_over_train{.low = 0.999, .high = 1.001}))
template <class Weight, class... Gates>
constexpr rollout_correction<proximal_policy, Weight, Gates...> decoupled(Weight weight, Gates... gates) {
  return {weight, std::tuple<Gates...>(gates...)};
}

/// Corrects logp over rollout_logp where no old_logp exists. With a weight, the objective is one without a ratio:
/// weighted{policy_gradient{}}. Without one, it is a ratio to the rollout policy: rollout_is{ppo_clip{}}.
template <class Weight, class... Gates>
constexpr rollout_correction<current_policy, Weight, Gates...> bypass(Weight weight, Gates... gates) {
  return {weight, std::tuple<Gates...>(gates...)};
}

RLCORE_ALGORITHM_END
RLCORE_END
