// algorithm.adv_estimator: the advantage that a word of the command line names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/gpg.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/advantage/opo.hpp"
#include "rlcore/objective/advantage/optimal_token_baseline.hpp"
#include "rlcore/objective/advantage/pass_at_k.hpp"
#include "rlcore/objective/advantage/reinforce_plus_plus.hpp"
#include "rlcore/objective/advantage/reinforce_plus_plus_baseline.hpp"
#include "rlcore/objective/advantage/remax.hpp"
#include "rlcore/objective/advantage/rloo.hpp"
#include "rlcore/objective/advantage/whitening.hpp"
#include "rlcore/trainer/policy/algorithm/advantage_inputs.hpp"
#include "rlcore/trainer/policy/algorithm/estimate_advantages.hpp"
#include "rlcore/trainer/policy/algorithm/token_table.hpp"

RLCORE_BEGIN
namespace trainer {

/// verl's estimators, under verl's names.
enum class advantage_estimator : std::uint8_t {
  gae,
  grpo,
  reinforce_plus_plus,
  reinforce_plus_plus_baseline,
  remax,
  rloo,
  opo,
  grpo_passk,
  gpg,
  grpo_vectorized,
  rloo_vectorized,
  optimal_token_baseline,
};

/// Their words, in the order of the enumeration.
inline constexpr std::array<std::string_view, 12> advantage_estimator_names{"gae",
                                                                            "grpo",
                                                                            "reinforce_plus_plus",
                                                                            "reinforce_plus_plus_baseline",
                                                                            "remax",
                                                                            "rloo",
                                                                            "opo",
                                                                            "grpo_passk",
                                                                            "gpg",
                                                                            "grpo_vectorized",
                                                                            "rloo_vectorized",
                                                                            "optimal_token_baseline"};

/// The estimator of that name. Throws std::invalid_argument.
inline advantage_estimator advantage_estimator_of(std::string_view name) {
  for (std::size_t i = 0; i < advantage_estimator_names.size(); ++i)
    if (advantage_estimator_names[i] == name) return static_cast<advantage_estimator>(i);
  throw std::invalid_argument("rlcore: '" + std::string(name) + "' is no advantage estimator");
}

/// The advantages of a step by any of verl's estimators, each as namespace verl has it. GAE and REINFORCE++ see the
/// token rewards, so also a KL penalty where it was paid; the others its sum.
struct verl_advantage {
  advantage_estimator kind = advantage_estimator::grpo;
  bool normalize_by_std = true;      ///< of grpo, grpo_vectorized and grpo_passk
  double gamma = 1.0, lambda = 1.0;  ///< gamma of gae and reinforce_plus_plus, lambda of gae

  advantage_inputs inputs() const noexcept {
    return {.values = kind == advantage_estimator::gae,
            .greedy_scores = kind == advantage_estimator::remax,
            .sum_squared_probs = kind == advantage_estimator::optimal_token_baseline};
  }
  /// True if every response token has an advantage of its own.
  bool by_token() const noexcept {
    return kind == advantage_estimator::gae || kind == advantage_estimator::reinforce_plus_plus ||
           kind == advantage_estimator::remax || kind == advantage_estimator::optimal_token_baseline;
  }

  /// The `samples` responses to one prompt are neighbours.
  void operator()(std::span<trajectory> batch, std::int64_t samples) const {
    if (by_token()) return of_tokens(batch, samples);
    std::vector<float> reward, advantage(batch.size());
    std::vector<std::int64_t> length;
    for (const trajectory& t : batch) reward.push_back(t.reward), length.push_back(t.response_length());
    switch (kind) {
      case advantage_estimator::reinforce_plus_plus_baseline:
        rlcore::reinforce_plus_plus_baseline{}(reward, samples, length, advantage);
        break;
      case advantage_estimator::opo:
        rlcore::opo{}(reward, samples, length, advantage);
        break;
      case advantage_estimator::rloo:
        rlcore::rloo{.singleton = singleton_group::reward}(reward, samples, advantage);
        break;
      case advantage_estimator::rloo_vectorized:
        rlcore::rloo{}(reward, samples, advantage);
        break;
      case advantage_estimator::grpo_passk:
        pass_at_k{.normalize_by_std = normalize_by_std}(reward, samples, advantage);
        break;
      case advantage_estimator::gpg:
        rlcore::gpg{.count = gpg_count::nonzero_rewards}(reward, samples, advantage);
        break;
      default:
        group_relative{.normalize_by_std = normalize_by_std}(reward, samples, advantage);
    }
    for (std::size_t i = 0; i < batch.size(); ++i) batch[i].advantage = advantage[i];
  }

 private:
  void of_tokens(std::span<trajectory> batch, std::int64_t samples) const {
    const token_table table(batch);
    const std::vector<float> reward = table.rewards(batch);
    std::vector<float> advantage = table.matrix(), returns = table.matrix();
    const token_mask mask = table.mask();
    const matrix_view<const float> r = table.view(reward);
    const matrix_view<float> a = table.view(advantage), g = table.view(returns);
    if (kind == advantage_estimator::gae) {
      const std::vector<float> value = table.gather(batch, &trajectory::value);
      rlcore::gae{.gamma = gamma, .lambda = lambda}(r, table.view(value), mask, a, g);
      whitening{}(a, mask, a);
    } else if (kind == advantage_estimator::reinforce_plus_plus) {
      rlcore::reinforce_plus_plus{.gamma = gamma}(r, mask, a, g);
    } else if (kind == advantage_estimator::remax) {
      std::vector<float> greedy;
      for (const trajectory& t : batch) greedy.push_back(t.greedy_score);
      discounted_return{}(r, mask, g);
      rlcore::remax{}(r, greedy, mask, a);
    } else {
      const std::vector<float> logp = table.gather(batch, &trajectory::old_logp),
                               squares = table.gather(batch, &trajectory::sum_squared_probs);
      discounted_return{}(r, mask, g);
      const optimal_token_inputs<float> in{r, table.view(logp), table.view(squares), {}, mask};
      rlcore::optimal_token_baseline{}(in, samples, a);
    }
    table.scatter(advantage, batch, &trajectory::token_advantage);
    table.scatter(returns, batch, &trajectory::token_return);
  }
};

}  // namespace trainer
RLCORE_END
