// Variations of a named algorithm: with_kl(dapo(), 0.001), with_aggregation(grpo(), token_mean{}), ...
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/piece/combine/rollout_is.hpp"
#include "rlcore/objective/piece/combine/scaled.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/combine/weighted.hpp"
#include "rlcore/objective/piece/divergence/k3.hpp"
#include "rlcore/objective/piece/entropy/entropy_bonus.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// The algorithm with other advantages.
template <class Advantage, class Old, class Objective, class Aggregation>
constexpr auto with_advantage(const algorithm<Old, Objective, Aggregation>& a, Advantage advantage) {
  return algorithm{advantage, a.objective, a.aggregation};
}

/// The algorithm with another weight of its tokens.
template <class Aggregation, class Advantage, class Objective, class Old>
constexpr auto with_aggregation(const algorithm<Advantage, Objective, Old>& a, Aggregation aggregation) {
  return algorithm{a.advantage, a.objective, aggregation};
}

namespace detail {
/// Whether the objective is made of token pieces, to which others can be added.
template <class Objective>
inline constexpr bool of_tokens = composite_piece<Objective> || token_piece<Objective>;
}  // namespace detail

/// The algorithm with one more piece in its loss.
template <class Piece, class Advantage, class Objective, class Aggregation>
constexpr auto with_piece(const algorithm<Advantage, Objective, Aggregation>& a, Piece piece) {
  static_assert(
      detail::of_tokens<Objective>,
      "rlcore: this algorithm is a loss of sequences or pairs, and a piece of tokens has another denominator; "
      "evaluate the piece by a second call with token_gradients::add");
  return algorithm{a.advantage, sum{a.objective, piece}, a.aggregation};
}

/// + coefficient KL(policy, reference) in the loss, by the given estimator. Refused where the KL is in the loss
/// already.
template <class Divergence = k3, class Advantage, class Objective, class Aggregation>
constexpr auto with_kl(const algorithm<Advantage, Objective, Aggregation>& a, double coefficient,
                       Divergence divergence = {}) {
  static_assert(!detail::kl_in_loss<Objective>,
                "rlcore: this algorithm has a KL term in its loss; give its settings another coefficient instead");
  check_setting("with_kl", "coefficient", coefficient, setting::coefficient);
  return with_piece(a, scaled{coefficient, divergence});
}

/// - coefficient KL in the rewards, before the estimator sees them: the advantage of the result has a member `penalty`,
/// e.g. kl_in_reward or divergence_in_reward, which is applied first. Refused where the KL is in the loss.
template <class Penalty, class Advantage, class Objective, class Aggregation>
constexpr auto with_kl_in_reward(const algorithm<Advantage, Objective, Aggregation>& a, Penalty penalty) {
  return algorithm{on_penalised_rewards{a.advantage, penalty}, a.objective, a.aggregation};
}

/// - coefficient times the entropy.
template <class Advantage, class Objective, class Aggregation>
constexpr auto with_entropy(const algorithm<Advantage, Objective, Aggregation>& a, double coefficient) {
  return with_piece(a, entropy_bonus(coefficient));
}

namespace detail {
template <class Piece, class F>
constexpr auto change_policy(const Piece& piece, F f) {
  return f(piece);
}
template <class First, class... Rest, class F>
constexpr auto change_policy(const sum<First, Rest...>& s, F f) {
  if constexpr (sizeof...(Rest) == 0)
    return change_policy(s.first, f);
  else
    return sum{change_policy(s.first, f), s.rest};
}
}  // namespace detail

/// The policy piece (the first) times field::weight, as an off-policy correction wants it; KL and entropy are not
/// weighted (verl's and TRL's order).
template <class Advantage, class Objective, class Aggregation>
constexpr auto with_weight(const algorithm<Advantage, Objective, Aggregation>& a) {
  static_assert(
      detail::of_tokens<Objective>,
      "rlcore: this algorithm is a loss of sequences or pairs; weighted{} or weighted_pair{} its link instead");
  return algorithm{a.advantage, detail::change_policy(a.objective, [](auto piece) { return weighted{piece}; }),
                   a.aggregation};
}

/// The policy piece with its ratio to the rollout policy instead of the old one (verl's bypass mode).
template <class Advantage, class Objective, class Aggregation>
constexpr auto with_rollout_ratio(const algorithm<Advantage, Objective, Aggregation>& a) {
  static_assert(detail::of_tokens<Objective>,
                "rlcore: this algorithm is a loss of sequences or pairs and has no ratio to replace");
  return algorithm{a.advantage, detail::change_policy(a.objective, [](auto piece) { return rollout_is{piece}; }),
                   a.aggregation};
}

RLCORE_ALGORITHM_END
RLCORE_END
