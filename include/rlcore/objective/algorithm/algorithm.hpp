// Algorithm: an advantage, an objective and an aggregation, and functions that replace one of them.
#pragma once

#include <type_traits>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"
#include "rlcore/objective/piece/combine/reweighted.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/entropy.hpp"
#include "rlcore/objective/piece/supervised.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// For algorithms that learn from labels or pairs, not from rewards.
struct no_advantage {};

namespace detail {

/// A piece that compares the policy with the reference counts as a KL in the loss.
template <class Objective, std::size_t... Index>
constexpr bool has_kl(std::index_sequence<Index...>) noexcept {
  return (contains(piece_type<Index, Objective>::reads, field::ref_logp) || ...);
}
template <class Objective>
inline constexpr bool kl_in_loss = false;
template <class Objective>
  requires(composite_piece<Objective> || token_piece<Objective>)
inline constexpr bool kl_in_loss<Objective> = has_kl<Objective>(std::make_index_sequence<piece_count<Objective>>{});

template <class Advantage>
inline constexpr bool kl_in_reward_of = false;
template <class Advantage>
  requires requires { Advantage::kl_in_reward; }
inline constexpr bool kl_in_reward_of<Advantage> = Advantage::kl_in_reward;

}  // namespace detail

/// An estimator whose rewards hold a KL penalty: penalty(...) makes the rewards, the estimator itself is called on
/// them. The type keeps a second KL out of the loss.
template <class Advantage, class Penalty>
struct on_penalised_rewards : Advantage {
  static constexpr bool kl_in_reward = true;
  Penalty penalty;
  /// The estimator `a` on rewards that `p` has penalised.
  constexpr on_penalised_rewards(Advantage a, Penalty p) : Advantage(a), penalty(p) {}
};

/// Return type of grpo(), ppo(), dpo(), .... The three parts are independent objects and can be recombined:
/// algorithm{rloo{}, grpo().objective, token_mean{}}.
template <class Advantage, class Objective, class Aggregation>
struct algorithm {
  static_assert(!(detail::kl_in_reward_of<Advantage> && detail::kl_in_loss<Objective>),
                "rlcore: the KL penalty is in the reward and in the loss, so it would count twice; keep one of them");
  [[no_unique_address]] Advantage advantage;
  [[no_unique_address]] Objective objective;
  [[no_unique_address]] Aggregation aggregation;

  /// Throws std::invalid_argument with the name of an invalid setting.
  constexpr algorithm(Advantage a, Objective o, Aggregation g) : advantage(a), objective(o), aggregation(g) {
    detail::check_part(advantage), detail::check_part(objective), detail::check_part(aggregation);
  }

  /// A report of the loss without rows, to which those of micro-batches are added: report += evaluate(...).
  auto report() const noexcept { return empty_report(objective); }
};

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
/// Whether the objective is made of token pieces, so that pieces can be added.
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

/// The policy piece (the first) times field::weight, for off-policy correction; KL and entropy are not weighted (verl's
/// and TRL's order).
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

/// A pair loss plus `coefficient` times the NLL of the chosen answers: the mean over their tokens (chosen_token_mean:
/// RPO, CPO, ORPO, the SFT term of TRL's loss lists) or over answers of token means (chosen_sequence_mean: OpenRLHF).
template <class Pair, class Chosen = chosen_token_mean>
struct likelihood_regularised {
  Pair pair;
  double coefficient;

  /// A report of both terms without rows.
  auto report() const noexcept;
};

/// Adds the likelihood of the chosen answers to a loss of pairs.
template <class Chosen = chosen_token_mean, class Advantage, class Objective, class Aggregation>
constexpr auto with_likelihood(const algorithm<Advantage, Objective, Aggregation>& pair, double coefficient) {
  static_assert(
      detail::per_pair<Aggregation>,
      "rlcore: with_likelihood adds the likelihood of the chosen answers to a loss of pairs, and this algorithm "
      "is none; the likelihood of all answers is negative_log_likelihood, a piece like any other");
  return likelihood_regularised<algorithm<Advantage, Objective, Aggregation>, Chosen>{pair, coefficient};
}

/// Both terms of one batch; join with +=.
template <class PairReport, class LikelihoodReport>
struct likelihood_regularised_report {
  PairReport pair;
  LikelihoodReport likelihood;
  double loss() const noexcept { return pair.loss() + likelihood.loss(); }
  /// Joins the terms of another part of the step.
  likelihood_regularised_report& operator+=(const likelihood_regularised_report& o) noexcept {
    pair += o.pair, likelihood += o.likelihood;
    return *this;
  }
  /// As report::keep_names().
  void keep_names(const likelihood_regularised_report& local) noexcept {
    pair.keep_names(local.pair), likelihood.keep_names(local.likelihood);
  }
};

template <class Pair, class Chosen>
auto likelihood_regularised<Pair, Chosen>::report() const noexcept {
  return likelihood_regularised_report{pair.report(), empty_report(scaled{coefficient, negative_log_likelihood{}})};
}

RLCORE_ALGORITHM_END
RLCORE_END
