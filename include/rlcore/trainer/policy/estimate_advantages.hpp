// From the rewards of a step's trajectories to their advantages, whatever form the estimator has.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/trainer/policy/trajectory.hpp"

RLCORE_BEGIN
namespace trainer {
namespace detail {

/// Estimators from token rewards: (rewards [rows, tokens], mask, advantages). The braces fit a token_mask alone,
/// neither the size of a group nor a parameter whose type is deduced.
template <class Advantage, class Matrix>
concept token_estimator = requires(const Advantage a, Matrix& m, const token_mask& mask) {
  a(m, {mask}, m);
};
/// Those that need one more number per row or token before the mask: a critic's values, the rewards of greedy answers.
template <class Advantage, class Matrix>
concept estimator_with_baseline = requires(const Advantage a, Matrix& m, const token_mask& mask) {
  a(m, m, {mask}, m);
};

/// The rewards of single tokens: those of the trajectory if it has any, else its reward at its last token.
template <class Advantage>
void estimate_by_token(const Advantage& estimator, std::span<trajectory> batch) {
  std::int64_t width = 0;
  for (const trajectory& t : batch) width = std::max(width, t.response_length());
  const auto rows = batch.size(), columns = static_cast<std::size_t>(width);
  std::vector<float> reward(rows * columns);
  std::vector<std::uint8_t> live(rows * columns);
  for (std::size_t i = 0; i < rows; ++i) {
    const trajectory& t = batch[i];
    const auto length = static_cast<std::size_t>(t.response_length());
    float* row = reward.data() + i * columns;
    std::fill_n(live.data() + i * columns, length, std::uint8_t{1});
    if (!t.token_reward.empty())
      std::copy(t.token_reward.begin(), t.token_reward.end(), row);
    else if (length > 0)
      row[length - 1] = t.reward;
  }
  const extents<2> shape{static_cast<extent_t>(rows), static_cast<extent_t>(width)};
  matrix_view<float> matrix(reward.data(), shape);
  estimator(matrix, token_mask(matrix_view<const std::uint8_t>(live.data(), shape)), matrix);
  for (std::size_t i = 0; i < rows; ++i) {
    const float* row = reward.data() + i * columns;
    batch[i].token_advantage.assign(row, row + batch[i].response_length());
  }
}

}  // namespace detail

/// Calls the estimator in the form it has:
///   (rewards, group size, advantages)            group_relative, rloo, ...
///   (rewards, group size, lengths, advantages)   opo, in_order, ...
///   (token rewards, mask, advantages)            reinforce_plus_plus: writes trajectory::token_advantage
///   (trajectories, group size)                   writes trajectory::advantage or token_advantage itself
template <class Advantage>
void estimate_advantages(const Advantage& estimator, std::span<trajectory> batch, std::int64_t samples) {
  using matrix = matrix_view<float>;
  if constexpr (requires { estimator(batch, samples); }) {
    estimator(batch, samples);
  } else if constexpr (detail::token_estimator<Advantage, matrix>) {
    detail::estimate_by_token(estimator, batch);
  } else {
    static_assert(
        !detail::estimator_with_baseline<Advantage, matrix>,
        "rlcore: this estimator needs the values of a critic or the rewards of greedy answers, and the policy "
        "loop has neither; take one that compares the answers to a prompt, e.g. group_relative or rloo");
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

}  // namespace trainer
RLCORE_END
