// Any estimator of the KL as a penalty in the reward.
#pragma once

#include <span>

#include "rlcore/objective/advantage/kl_in_reward.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// kl_in_reward with an estimator of your own: divergence_in_reward{value_clamped{k1{}}, 0.01} is OpenRLHF's, whose
/// estimators are limited to 10 either way; {k3{}, 0.05} and {k1{}, 0.05} are those of TRL's PPO and RLOO.
template <class Divergence>
struct divergence_in_reward {
  static constexpr bool kl_in_reward = true;
  [[no_unique_address]] Divergence divergence;
  double coefficient = 0.001;

  /// The penalty `coefficient_` times the estimate of `d`.
  constexpr explicit divergence_in_reward(Divergence d, double coefficient_ = 0.001)
      : divergence(d), coefficient(coefficient_) {}

  /// Token rewards of one response, all of whose tokens are live: -coefficient kl_t, plus the score at the last.
  /// `reward` may be empty if only the totals are wanted. Throws std::invalid_argument if sizes differ.
  template <class T>
  shaped_reward operator()(double score, std::span<const T> old_logp, std::span<const T> ref_logp,
                           std::span<T> reward = {}) const {
    return detail::shape_reward<Divergence, T>(divergence, coefficient, score, old_logp, ref_logp, reward);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
