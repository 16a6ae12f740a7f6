// Advantages of a step's trajectories from their rewards, for any form of estimator; OpenRLHF's order of steps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/config/algorithm/advantage_estimators.hpp"
#include "rlcore/objective/advantage/estimator.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/gigpo.hpp"
#include "rlcore/objective/advantage/optimal_token_baseline.hpp"
#include "rlcore/objective/algorithm/openrlhf.hpp"
#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace train {

/// [trajectories, longest response] with a mask of the response tokens.
class token_table {
 public:
  /// Rows as many as trajectories, columns as many as the longest response has tokens.
  explicit token_table(std::span<const trajectory> batch);

  extents<2> shape() const noexcept { return {static_cast<extent_t>(rows_), static_cast<extent_t>(columns_)}; }
  token_mask mask() const { return token_mask(matrix_view<const std::uint8_t>(live_.data(), shape())); }
  /// A matrix of this table's shape as a view.
  matrix_view<float> view(std::vector<float>& matrix) const { return {matrix.data(), shape()}; }
  /// The same for reading.
  matrix_view<const float> view(const std::vector<float>& matrix) const { return {matrix.data(), shape()}; }
  std::vector<float> matrix() const { return std::vector<float>(rows_ * columns_); }

  /// A field of the trajectories as a matrix, 0 where a row has ended.
  std::vector<float> gather(std::span<const trajectory> batch, const std::vector<float> trajectory::* field) const;
  /// The token rewards: those of the trajectory if it has any, else its turns' if it is rewarded by turn, else its
  /// reward at its last token.
  std::vector<float> rewards(std::span<const trajectory> batch) const;
  /// Back into a field of the trajectories.
  void scatter(const std::vector<float>& matrix, std::span<trajectory> batch,
               std::vector<float> trajectory::* field) const;

 private:
  std::size_t rows_, columns_ = 0;
  std::vector<std::uint8_t> live_;
};

namespace detail {

/// One number for each trained token: that of its turn.
std::vector<float> of_turns(const trajectory& t, std::span<const float> turns);

/// Writes trajectory::advantage.
template <class Estimator>
void estimate_by_response(const Estimator& estimator, std::span<trajectory> batch, std::int64_t samples) {
  std::vector<float> reward, advantage(batch.size());
  std::vector<std::int64_t> length;
  for (const trajectory& t : batch) reward.push_back(t.reward), length.push_back(t.policy_length());
  if constexpr (requires { estimator(reward, samples, length, advantage); })
    estimator(reward, samples, length, advantage);
  else
    estimator(reward, samples, advantage);
  for (std::size_t i = 0; i < batch.size(); ++i) batch[i].advantage = advantage[i];
}

/// Whether the score of the response is what an environment gave for its turns.
bool scored_by_turn(const trajectory& t);

/// Writes trajectory::token_advantage, that of its turn, and the same as token_return. The reward of a turn is the
/// environment's, if these make up the score; the last turn has the rest: the whole reward otherwise, penalties. The
/// state in which a turn begins is the prompt or the reply before it.
template <class Estimator>
void estimate_by_turn(const Estimator& estimator, std::span<trajectory> batch, std::int64_t samples) {
  std::vector<float> reward, turn_rewards, advantages;
  std::vector<std::int64_t> turns, states;
  for (const trajectory& t : batch) {
    const std::size_t n = t.context.size() + 1, first = turn_rewards.size();
    reward.push_back(t.reward), turns.push_back(static_cast<std::int64_t>(n));
    turn_rewards.resize(first + n);
    const std::size_t own = scored_by_turn(t) ? n - 1 : 0;  // turns with a reward of their own, but for the last
    double before = 0;                                      // of the reward
    for (std::size_t k = 0; k < own; ++k) before += turn_rewards[first + k] = static_cast<float>(t.turn_rewards[k]);
    turn_rewards.back() = static_cast<float>(static_cast<double>(t.reward) - before);
    const auto begin_after = [&](std::size_t begin, std::size_t count) {
      fingerprint hash;
      hash.add(std::span<const std::int32_t>(t.tokens).subspan(begin, count));
      states.push_back(static_cast<std::int64_t>(hash.word()));
    };
    const auto prompt = static_cast<std::size_t>(t.prompt_length);
    begin_after(0, prompt);
    for (const rollout::context_run& reply : t.context)
      begin_after(prompt + static_cast<std::size_t>(reply.begin), static_cast<std::size_t>(reply.count));
  }
  advantages.resize(turn_rewards.size());
  estimator(reward, samples, conversation_turns{turns, turn_rewards, states}, advantages);
  std::size_t first = 0;
  for (trajectory& t : batch) {
    t.token_return = t.token_advantage = of_turns(t, std::span(advantages).subspan(first, t.context.size() + 1));
    first += t.context.size() + 1;
  }
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
///   (rewards, group size, conversation_turns, advantages of turns)   gigpo
///   (trajectories, group size)                           writes trajectory::advantage or token_advantage itself
/// The `samples` responses to one prompt are neighbours. Forms with tokens see the token rewards, so also a KL penalty
/// where it was paid; the others its sum.
template <class Estimator>
void estimate_advantages(const Estimator& estimator, std::span<trajectory> batch, std::int64_t samples) {
  if constexpr (requires { estimator(batch, samples); })
    estimator(batch, samples);
  else if constexpr (requires { Estimator::by_turn; })
    detail::estimate_by_turn(estimator, batch, samples);
  else if constexpr (response_estimator<Estimator>)
    detail::estimate_by_response(estimator, batch, samples);
  else
    detail::estimate_by_token(estimator, batch, samples);
}

/// First the score of a response against those of its group, by the recipe's baseline; then limited by `clip` and put
/// at the last token, on top of the KL penalty of each token. The recipe computes the advantage from these rewards; all
/// but grpo's are then normalised over the response tokens of the step: (A - mean) / sqrt(max(variance, 1e-8)), without
/// the division if not `scale`.
template <class Recipe>
struct openrlhf_advantage {
  Recipe recipe;
  reward_clip clip{};
  bool scale = true;

  advantage_input inputs() const noexcept { return inputs_of(recipe.follow); }

  /// The `samples` responses to one prompt are neighbours.
  void operator()(std::span<trajectory> batch, std::int64_t samples) const {
    const token_table table(batch);
    const std::vector<float> rewards = shaped_rewards(table, batch, samples);
    std::vector<float> advantages = table.matrix(), returns = table.matrix();
    const token_mask mask = table.mask();
    const matrix_view<const float> r = table.view(rewards);
    const matrix_view<float> a = table.view(advantages), g = table.view(returns);
    if constexpr (contains(inputs_of(decltype(recipe.follow){}), advantage_input::values)) {
      const std::vector<float> values = table.gather(batch, &trajectory::value);
      recipe.follow(r, table.view(values), mask, a, g);
    } else {
      recipe.follow(r, mask, g);
      advantages = returns;
    }
    whitening normalised = openrlhf::whitened_by();
    normalised.scale = scale;
    if (recipe.whitened) normalised(table.view(advantages), mask, table.view(advantages));
    table.scatter(advantages, batch, &trajectory::token_advantage);
    table.scatter(returns, batch, &trajectory::token_return);
  }

 private:
  /// The token rewards, with the shaped score of each response in the place of its own.
  std::vector<float> shaped_rewards(const token_table& table, std::span<const trajectory> batch,
                                    std::int64_t samples) const {
    std::vector<float> score, shaped(batch.size());
    for (const trajectory& t : batch) score.push_back(static_cast<float>(t.score()));
    recipe.baseline(score, samples, shaped);
    clip(shaped);
    std::vector<float> reward = table.matrix();
    const auto columns = static_cast<std::size_t>(table.shape()[1]);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const trajectory& t = batch[i];
      float* row = reward.data() + i * columns;
      std::copy(t.token_reward.begin(), t.token_reward.end(), row);
      const auto length = static_cast<std::size_t>(t.policy_length());
      if (length == 0) continue;
      float& last = row[length - 1];
      last = t.token_reward.empty()
                 ? shaped[i]
                 : static_cast<float>(static_cast<double>(last) - t.score() + static_cast<double>(shaped[i]));
    }
    return reward;
  }
};
template <class Recipe>
openrlhf_advantage(Recipe, reward_clip, bool) -> openrlhf_advantage<Recipe>;

}  // namespace train

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE bool detail::scored_by_turn(const trajectory& t) {
  double sum = 0;
  for (const double x : t.turn_rewards) sum += x;
  return t.turn_rewards.size() == t.context.size() + 1 && sum == t.verdict.score;
}

RLCORE_INLINE std::vector<float> detail::of_turns(const trajectory& t, std::span<const float> turns) {
  std::vector<float> of(static_cast<std::size_t>(t.response_length()));
  std::size_t turn = 0, begin = 0;
  for (const rollout::context_run& reply : t.context) {
    std::fill(of.begin() + static_cast<std::ptrdiff_t>(begin), of.begin() + reply.begin, turns[turn++]);
    begin = static_cast<std::size_t>(reply.begin + reply.count);
  }
  std::fill(of.begin() + static_cast<std::ptrdiff_t>(begin), of.end(), turns[turn]);
  std::vector<float> trained;
  std::int32_t end = 0;
  for (const rollout::context_run& out : t.left_out()) {
    trained.insert(trained.end(), of.begin() + end, of.begin() + out.begin);
    end = out.begin + out.count;
  }
  trained.insert(trained.end(), of.begin() + end, of.end());
  return trained;
}

RLCORE_INLINE token_table::token_table(std::span<const trajectory> batch) : rows_(batch.size()) {
  std::int64_t width = 0;
  for (const trajectory& t : batch) width = std::max(width, t.policy_length());
  columns_ = static_cast<std::size_t>(width);
  live_.resize(rows_ * columns_);
  for (std::size_t i = 0; i < rows_; ++i)
    std::fill_n(live_.data() + i * columns_, static_cast<std::size_t>(batch[i].policy_length()), std::uint8_t{1});
}

RLCORE_INLINE std::vector<float> token_table::gather(std::span<const trajectory> batch,
                                                     const std::vector<float> trajectory::* field) const {
  std::vector<float> out = matrix();
  for (std::size_t i = 0; i < rows_; ++i)
    std::copy((batch[i].*field).begin(), (batch[i].*field).end(), out.data() + i * columns_);
  return out;
}

RLCORE_INLINE std::vector<float> token_table::rewards(std::span<const trajectory> batch) const {
  std::vector<float> out = gather(batch, &trajectory::token_reward);
  for (std::size_t i = 0; i < rows_; ++i) {
    const trajectory& t = batch[i];
    if (!t.token_reward.empty() || t.policy_length() == 0) continue;
    std::vector<float> score(static_cast<std::size_t>(t.policy_length()));
    score.back() = t.reward;
    if (t.rewarded_by_turn) score = t.score_by_token();
    std::copy(score.begin(), score.end(), out.data() + i * columns_);
  }
  return out;
}

RLCORE_INLINE void token_table::scatter(const std::vector<float>& matrix, std::span<trajectory> batch,
                                        std::vector<float> trajectory::* field) const {
  for (std::size_t i = 0; i < rows_; ++i) {
    const float* row = matrix.data() + i * columns_;
    (batch[i].*field).assign(row, row + batch[i].policy_length());
  }
}

}  // namespace train
RLCORE_END
#endif
