// Advantages as OpenRLHF's train_ppo_ray computes them (0.7.5).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/objective/algorithm/openrlhf.hpp"
#include "rlcore/trainer/policy/algorithm/advantage_inputs.hpp"
#include "rlcore/trainer/policy/algorithm/token_table.hpp"
#include "rlcore/trainer/policy/algorithm/verl_advantage.hpp"

RLCORE_BEGIN
namespace trainer {

/// First the score of a response against those of its group (rloo: the mean of the others,
/// reinforce_plus_plus_baseline: the mean, grpo: the mean, divided by the deviation + 1e-9 if normalize_by_std; gae and
/// reinforce_plus_plus: as it is), then limited to [low, high] and put at the last token, on top of the KL penalty of
/// each token. The advantage is GAE's, or what follows a token, discounted by gamma (by 1 in groups); all but grpo's
/// are then normalised over the response tokens of the step: (A - mean) / sqrt(max(variance, 1e-8)), without the
/// division if not `scale`.
struct openrlhf_advantage {
  advantage_estimator kind = advantage_estimator::reinforce_plus_plus;  ///< one of the five named above
  bool normalize_by_std = true;
  double gamma = 1.0, lambda = 1.0;
  reward_clip clip{};
  bool scale = true;

  advantage_inputs inputs() const noexcept { return {.values = kind == advantage_estimator::gae}; }

  /// The `samples` responses to one prompt are neighbours.
  void operator()(std::span<trajectory> batch, std::int64_t samples) const {
    std::vector<float> score, shaped(batch.size());
    for (const trajectory& t : batch) score.push_back(static_cast<float>(t.score()));
    const bool in_group = kind != advantage_estimator::gae && kind != advantage_estimator::reinforce_plus_plus;
    if (kind == advantage_estimator::rloo)
      rlcore::rloo{}(score, samples, shaped);
    else if (in_group)
      group_relative{.normalize_by_std = kind == advantage_estimator::grpo && normalize_by_std,
                     .epsilon = 1e-9,
                     .singleton = singleton_group::zero}(score, samples, shaped);
    else
      shaped = score;
    clip(shaped);

    const token_table table(batch);
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
    std::vector<float> advantage = table.matrix(), returns = table.matrix();
    const token_mask mask = table.mask();
    const matrix_view<float> r = table.view(reward), a = table.view(advantage), g = table.view(returns);
    whitening normalised = openrlhf::whitened_by();
    normalised.scale = scale;
    if (kind == advantage_estimator::gae) {
      std::vector<float> value = table.gather(batch, &trajectory::value);
      gae{.gamma = gamma, .lambda = lambda, .turns = turn_policy::discount}(r, table.view(value), mask, a, g);
    } else {
      discounted_return{in_group ? 1.0 : gamma, turn_policy::discount}(r, mask, g);
      advantage = returns;
    }
    if (kind != advantage_estimator::grpo) normalised(a, mask, a);
    table.scatter(advantage, batch, &trajectory::token_advantage);
    table.scatter(returns, batch, &trajectory::token_return);
  }
};

}  // namespace trainer
RLCORE_END
