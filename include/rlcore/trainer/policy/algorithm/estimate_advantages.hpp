// From the rewards of a step's trajectories to their advantages, whatever form the estimator has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "rlcore/objective/advantage/remax.hpp"
#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/trainer/policy/algorithm/advantage_inputs.hpp"
#include "rlcore/trainer/policy/algorithm/token_table.hpp"
#include "rlcore/trainer/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace trainer {
namespace detail {

/// Estimators from token rewards: (rewards [rows, tokens], mask, advantages). The braces fit a token_mask alone,
/// neither the size of a group nor a parameter whose type is deduced.
template <class Advantage, class Matrix>
concept token_estimator = requires(const Advantage a, Matrix& m, const token_mask& mask) {
  a(m, {mask}, m);
};
/// Those that need the values of a critic: (rewards, values, mask, advantages, returns).
template <class Advantage, class Matrix>
concept value_estimator = requires(const Advantage a, Matrix& m, const token_mask& mask) {
  a(m, m, {mask}, m, m);
};
/// Others with one more matrix or vector before the mask.
template <class Advantage, class Matrix>
concept estimator_with_baseline = requires(const Advantage a, Matrix& m, const token_mask& mask) {
  a(m, m, {mask}, m);
};

template <class Advantage>
void estimate_by_token(const Advantage& estimator, std::span<trajectory> batch) {
  const token_table table(batch);
  std::vector<float> reward = table.rewards(batch);
  matrix_view<float> matrix = table.view(reward);
  if constexpr (value_estimator<Advantage, matrix_view<float>>) {
    std::vector<float> value = table.gather(batch, &trajectory::value), advantage = table.matrix();
    estimator(matrix, table.view(value), table.mask(), table.view(advantage), matrix);
    table.scatter(advantage, batch, &trajectory::token_advantage);
    table.scatter(reward, batch, &trajectory::token_return);
  } else if constexpr (std::is_same_v<Advantage, remax>) {
    std::vector<float> greedy;
    for (const trajectory& t : batch) greedy.push_back(t.greedy_score);
    estimator(matrix, greedy, table.mask(), matrix);
    table.scatter(reward, batch, &trajectory::token_advantage);
  } else {
    estimator(matrix, table.mask(), matrix);
    table.scatter(reward, batch, &trajectory::token_advantage);
  }
}

}  // namespace detail

/// Calls the estimator in the form it has:
///   (rewards, group size, advantages)            group_relative, rloo, ...
///   (rewards, group size, lengths, advantages)   opo, in_order, ...
///   (token rewards, mask, advantages)            reinforce_plus_plus: writes trajectory::token_advantage
///   (token rewards, values, mask, advantages, returns)   gae, with the values of the run's critic; not normalised
///   (token rewards, greedy scores, mask, advantages)     remax
///   (trajectories, group size)                   writes trajectory::advantage or token_advantage itself
template <class Advantage>
void estimate_advantages(const Advantage& estimator, std::span<trajectory> batch, std::int64_t samples) {
  using matrix = matrix_view<float>;
  if constexpr (requires { estimator(batch, samples); }) {
    estimator(batch, samples);
  } else if constexpr (detail::token_estimator<Advantage, matrix> || detail::value_estimator<Advantage, matrix> ||
                       std::is_same_v<Advantage, remax>) {
    detail::estimate_by_token(estimator, batch);
  } else {
    static_assert(
        !detail::estimator_with_baseline<Advantage, matrix>,
        "rlcore: this estimator needs more than rewards, the values of a critic (gae) and the scores of greedy answers "
        "(remax), and the policy loop has nothing else");
    std::vector<float> reward, advantage(batch.size());
    std::vector<std::int64_t> length;
    for (const trajectory& t : batch) reward.push_back(t.reward), length.push_back(t.response_length());
    if constexpr (requires { estimator(reward, samples, length, advantage); })
      estimator(reward, samples, length, advantage);
    else
      estimator(reward, samples, advantage);
    for (std::size_t i = 0; i < batch.size(); ++i) batch[i].advantage = advantage[i];
  }
}

/// What estimate_advantages wants to be there.
template <class Advantage>
advantage_inputs inputs_of_estimator(const Advantage& estimator) {
  if constexpr (detail::value_estimator<Advantage, matrix_view<float>>)
    return {.values = true};
  else if constexpr (std::is_same_v<Advantage, remax>)
    return {.greedy_scores = true};
  else
    return inputs_of(estimator);
}

}  // namespace trainer
RLCORE_END
