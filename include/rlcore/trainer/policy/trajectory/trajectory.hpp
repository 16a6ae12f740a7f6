// One sampled response with everything the step learns about it, and packing of many into one forward pass.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/nn/model/targets.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/tensor/ragged.hpp"
#include "rlcore/training/shown_pictures.hpp"
#include "rlcore/verify/verdict.hpp"

RLCORE_BEGIN
namespace trainer {

/// Prompt and response in one token row; per-token fields have one entry per response token.
struct trajectory {
  std::vector<std::int32_t> tokens;
  std::int32_t prompt_length = 0;
  std::uint32_t row = 0;          ///< row of the data set
  std::uint32_t sample = 0;       ///< of that row in this step, from 0
  std::int64_t sampled_step = 0;  ///< in which step it was sampled
  std::vector<float> old_logp, entropy, ref_logp;
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

/// The grids of the pictures that a trajectory's prompt shows; `prompts` may be null.
inline std::vector<nn::picture> grids_of(const trajectory& t, const data::prompt_dataset* prompts) {
  if (prompts == nullptr) return {};
  return grids_of((*prompts)[t.row].images, prompts->cache.get());
}

/// Trajectories as the model sees them: rows without padding, and one target per response token. The last token of a
/// row predicts nothing that is scored, so it is not fed.
struct packed_trajectories {
  ragged<std::int32_t> tokens;
  shown_pictures pictures;
  nn::targets targets;
  std::vector<std::int32_t> offsets{0};  ///< of the response tokens of each trajectory in `targets`

  /// What a pass reads.
  nn::input input() const noexcept { return pictures.with(tokens); }

  void clear() {
    tokens.clear(), pictures.clear();
    targets.row.clear();
    targets.token.clear();
    offsets.assign(1, 0);
  }
  /// Appends a row and its targets: response token i is predicted by the row of the token before it. Its prompt's
  /// pictures are those of its row of `prompts`; null: there are none.
  void push_back(const trajectory& t, const data::prompt_dataset* prompts = nullptr) {
    const auto start = static_cast<std::int32_t>(tokens.values.size());
    tokens.push_back(std::span(t.tokens).first(t.tokens.size() - 1));
    if (prompts != nullptr) pictures.push_back((*prompts)[t.row].images, prompts->cache.get());
    for (std::int32_t i = t.prompt_length; i < static_cast<std::int32_t>(t.tokens.size()); ++i) {
      targets.row.push_back(start + i - 1);
      targets.token.push_back(t.tokens[static_cast<std::size_t>(i)]);
    }
    offsets.push_back(static_cast<std::int32_t>(targets.row.size()));
  }
  std::size_t size() const noexcept { return offsets.size() - 1; }
};

}  // namespace trainer
RLCORE_END
