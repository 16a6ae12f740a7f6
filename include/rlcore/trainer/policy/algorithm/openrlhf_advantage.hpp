// Advantages as OpenRLHF's train_ppo_ray computes them (0.7.5).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/config/algorithm/openrlhf_estimators.hpp"
#include "rlcore/objective/algorithm/openrlhf.hpp"
#include "rlcore/trainer/policy/algorithm/token_table.hpp"
#include "rlcore/trainer/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace trainer {

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
      const auto length = static_cast<std::size_t>(t.response_length());
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

}  // namespace trainer
RLCORE_END
