// A named algorithm: what turns rewards into advantages, what is minimised, and what a token weighs.
#pragma once

#include <type_traits>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/loop/evaluate.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// For algorithms that learn from labels or pairs, not from rewards.
struct no_advantage {};

namespace detail {

/// A piece that compares the policy with the reference is a KL in the loss.
template <class Objective, std::size_t... Index>
constexpr bool has_kl(std::index_sequence<Index...>) noexcept {
  return (contains(piece_type<Index, Objective>::reads, field::ref_logp) || ...);
}
template <class Objective>
inline constexpr bool kl_in_loss = false;
template <class Objective>
requires(composite_piece<Objective> || token_piece<Objective>) inline constexpr bool kl_in_loss<Objective> =
    has_kl<Objective>(std::make_index_sequence<piece_count<Objective>>{});

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

/// What the functions grpo(), ppo(), dpo(), ... return. The three parts are independent objects, to be taken apart and
/// put together: algorithm{rloo{}, grpo().objective, token_mean{}} is an algorithm like any other.
template <class Advantage, class Objective, class Aggregation>
struct algorithm {
  static_assert(!(detail::kl_in_reward_of<Advantage> && detail::kl_in_loss<Objective>),
                "rlcore: the KL penalty is in the reward and in the loss, so it would count twice; keep one of them");
  [[no_unique_address]] Advantage advantage;
  [[no_unique_address]] Objective objective;
  [[no_unique_address]] Aggregation aggregation;

  /// Throws std::invalid_argument that names a setting which makes no sense.
  constexpr algorithm(Advantage a, Objective o, Aggregation g) : advantage(a), objective(o), aggregation(g) {
    detail::check_part(advantage), detail::check_part(objective), detail::check_part(aggregation);
  }
};

/// Loss, gradient and report of a named algorithm: evaluate with its objective and its aggregation.
template <executor Executor, class Advantage, class Objective, class Aggregation, class T, class Counts>
auto evaluate(const Executor& exec, const algorithm<Advantage, Objective, Aggregation>& named,
              const token_batch<T>& batch, const Counts& step,
              const std::type_identity_t<token_gradients<T>>& gradients = {}) {
  return evaluate(exec, named.objective, named.aggregation, batch, step, gradients);
}

/// The same with another aggregation.
template <executor Executor, class Advantage, class Objective, class Replaced, class Aggregation, class T, class Counts>
auto evaluate(const Executor& exec, const algorithm<Advantage, Objective, Replaced>& named,
              const Aggregation& aggregation, const token_batch<T>& batch, const Counts& step,
              const std::type_identity_t<token_gradients<T>>& gradients = {}) {
  return evaluate(exec, named.objective, aggregation, batch, step, gradients);
}

RLCORE_ALGORITHM_END
RLCORE_END
