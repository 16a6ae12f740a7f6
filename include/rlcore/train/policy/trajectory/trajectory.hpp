// One sampled response with everything the step learns about it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/verify/verdict.hpp"

RLCORE_BEGIN
namespace train {

/// Prompt and response in one token row; per-token fields have one entry per response token.
struct trajectory {
  std::vector<std::int32_t> tokens;
  std::int32_t prompt_length = 0;
  std::uint32_t row = 0;          ///< row of the data set
  std::uint32_t sample = 0;       ///< of that row in this step, from 0
  std::int64_t sampled_step = 0;  ///< in which step it was sampled
  std::vector<float> old_logp, entropy, ref_logp;
  std::int64_t kept_ref = -1;       ///< where ref_logp begins in actor::kept_ref, if it stays on the device
  std::vector<float> rollout_logp;  ///< as recorded while sampling, where old_logp was computed again
  rollout::finish reason = rollout::finish::length;
  verify::verdict verdict;          ///< of the reward function
  std::optional<double> accuracy;   ///< `acc` of the reward function or of the reward manager
  double length_penalty = 0;        ///< of the reward manager: 0 or negative
  float reward = 0;                 ///< score minus the KL penalty, if that is in the reward
  std::vector<float> token_reward;  ///< if not empty: the penalty of each response token, and the score at the last
  float advantage = 0;
  std::vector<float> selected;           ///< if not empty: 0 or 1 for each response token, by a selection over the step
  std::vector<float> token_advantage;    ///< if not empty: one per response token, instead of `advantage`
  std::vector<float> value;              ///< of the critic, in the state before each response token
  std::vector<float> token_return;       ///< if not empty: what follows each response token, the critic's target
  std::vector<float> sum_squared_probs;  ///< of the old policy over the vocabulary, if the estimator wants it
  float greedy_score = 0;                ///< of the most likely answer to the prompt, if the estimator wants it

  double score() const noexcept { return verdict.score + length_penalty; }

  std::int64_t response_length() const noexcept { return std::ssize(tokens) - prompt_length; }
  std::span<const std::int32_t> response() const noexcept {
    return std::span(tokens).subspan(static_cast<std::size_t>(prompt_length));
  }
};

}  // namespace train
RLCORE_END
