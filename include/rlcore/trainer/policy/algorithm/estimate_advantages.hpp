// Computes the advantages of a step's trajectories from their rewards, for any form of estimator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/objective/advantage/estimator.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/optimal_token_baseline.hpp"
#include "rlcore/trainer/policy/algorithm/token_table.hpp"
#include "rlcore/trainer/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace trainer {
namespace detail {

/// Writes trajectory::advantage.
template <class Estimator>
void estimate_by_response(const Estimator& estimator, std::span<trajectory> batch, std::int64_t samples) {
  std::vector<float> reward, advantage(batch.size());
  std::vector<std::int64_t> length;
  for (const trajectory& t : batch) reward.push_back(t.reward), length.push_back(t.response_length());
  if constexpr (requires { estimator(reward, samples, length, advantage); })
    estimator(reward, samples, length, advantage);
  else
    estimator(reward, samples, advantage);
  for (std::size_t i = 0; i < batch.size(); ++i) batch[i].advantage = advantage[i];
}

/// Writes trajectory::token_advantage and token_return; if the estimator has no returns, they are the sum of the
/// rewards from each token on.
template <class Estimator>
void estimate_by_token(const Estimator& estimator, std::span<trajectory> batch, std::int64_t samples) {
  const token_table table(batch);
  const std::vector<float> rewards = table.rewards(batch);
  std::vector<float> advantages = table.matrix(), returns = table.matrix();
  const token_mask mask = table.mask();
  const matrix_view<const float> r = table.view(rewards);
  const matrix_view<float> a = table.view(advantages), g = table.view(returns);
  constexpr advantage_input reads = [] {
    if constexpr (requires { Estimator::reads; })
      return Estimator::reads;
    else
      return advantage_input::none;
  }();
  if constexpr (contains(reads, advantage_input::values)) {
    const std::vector<float> values = table.gather(batch, &trajectory::value);
    estimator(r, table.view(values), mask, a, g);
  } else if constexpr (reads == advantage_input::none && requires { estimator(r, {mask}, a, g); }) {
    estimator(r, mask, a, g);
  } else {
    discounted_return{}(r, mask, g);
    if constexpr (contains(reads, advantage_input::greedy_scores)) {
      std::vector<float> greedy;
      for (const trajectory& t : batch) greedy.push_back(t.greedy_score);
      estimator(r, greedy, mask, a);
    } else if constexpr (contains(reads, advantage_input::sum_squared_probs)) {
      const std::vector<float> logp = table.gather(batch, &trajectory::old_logp),
                               squares = table.gather(batch, &trajectory::sum_squared_probs);
      estimator(optimal_token_inputs<float>{r, table.view(logp), table.view(squares), {}, mask}, samples, a);
    } else {
      static_assert(
          requires { estimator(r, mask, a); },
          "rlcore: this estimator has no form that the policy loop can call, see estimate_advantages(); one "
          "that needs more than rewards says so by a member `reads` (advantage_input)");
      estimator(r, mask, a);
    }
  }
  table.scatter(advantages, batch, &trajectory::token_advantage);
  table.scatter(returns, batch, &trajectory::token_return);
}

}  // namespace detail

/// Calls the estimator in the form it has; what a form takes besides rewards, the estimator declares as `reads`:
///   (rewards, group size, advantages)                    group_relative, rloo, ...
///   (rewards, group size, lengths, advantages)           opo, in_order, ...
///   (token rewards, mask, advantages, returns)           reinforce_plus_plus; or without returns
///   (token rewards, values, mask, advantages, returns)   values: gae, with the values of the run's critic
///   (token rewards, greedy scores, mask, advantages)     greedy_scores: remax
///   (optimal_token_inputs, group size, advantages)       sum_squared_probs: optimal_token_baseline
///   (trajectories, group size)                           writes trajectory::advantage or token_advantage itself
/// The `samples` responses to one prompt are neighbours. Forms with tokens see the token rewards, so also a KL penalty
/// where it was paid; the others its sum.
template <class Estimator>
void estimate_advantages(const Estimator& estimator, std::span<trajectory> batch, std::int64_t samples) {
  if constexpr (requires { estimator(batch, samples); })
    estimator(batch, samples);
  else if constexpr (response_estimator<Estimator>)
    detail::estimate_by_response(estimator, batch, samples);
  else
    detail::estimate_by_token(estimator, batch, samples);
}

}  // namespace trainer
RLCORE_END
