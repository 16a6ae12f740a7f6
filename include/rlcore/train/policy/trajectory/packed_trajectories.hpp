// Trajectories packed into one forward pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/nn/moe/routing.hpp"
#include "rlcore/tensor/view.hpp"
#include "rlcore/train/model/images.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace train {

/// The grids of the images that a trajectory's prompt shows; `prompts` may be null.
inline std::vector<nn::image_patches> grids_of(const trajectory& t, const data::prompt_dataset* prompts) {
  if (prompts == nullptr) return {};
  return grids_of((*prompts)[t.row].images, prompts->cache.get());
}

/// Trajectories as the model sees them: rows without padding, and one target per response token of policy_length().
/// The last token of a row predicts nothing that is scored, so it is not fed.
struct packed_trajectories {
  ragged<std::int32_t> tokens;
  shown_images images;
  nn::targets targets;
  std::vector<std::int32_t> offsets{0};      ///< of each trajectory's tokens in `targets`
  std::vector<std::int16_t> routed_experts;  ///< of every token, if any trajectory has them

  /// The input of a pass.
  nn::input input() const noexcept { return images.with(tokens); }
  /// The input of a pass of the policy, whose tokens go to the experts that the trajectories have.
  nn::input policy_input() const noexcept {
    nn::input in = input();
    in.routed_experts = routed_experts;
    return in;
  }

  void clear() {
    tokens.clear(), images.clear(), routed_experts.clear();
    targets.row.clear();
    targets.token.clear();
    targets.sampling_mask.clear();
    offsets.assign(1, 0);
  }
  /// Appends a row and its targets: response token i is predicted by the row of the token before it. Its prompt's
  /// images are those of its row of `prompts`; null: there are none. `experts`, if not empty, are those of its tokens.
  /// Throws std::logic_error if the tokens are not those that were sampled.
  void push_back(const trajectory& t, const data::prompt_dataset* prompts, std::span<const std::int16_t> experts) {
    if (t.sampled_ids != 0 && t.sampled_ids != t.ids_hash())
      throw std::logic_error("rlcore: the tokens of a response to row " + std::to_string(t.row) +
                             " are not those that were sampled");
    const auto start = static_cast<std::int32_t>(tokens.values.size());
    push_experts(experts, t.tokens.size() - 1);
    tokens.push_back(std::span(t.tokens).first(t.tokens.size() - 1));
    if (prompts != nullptr) images.push_back((*prompts)[t.row].images, prompts->cache.get());
    std::int32_t i = t.prompt_length;
    const auto until = [&](std::int32_t end) {
      for (; i < end; ++i) {
        targets.row.push_back(start + i - 1);
        targets.token.push_back(t.tokens[static_cast<std::size_t>(i)]);
      }
    };
    for (const rollout::context_run& run : t.left_out()) {
      until(t.prompt_length + run.begin);
      i += run.count;
    }
    until(static_cast<std::int32_t>(t.tokens.size()));
    if (!t.sampling_mask.empty() || !targets.sampling_mask.empty()) push_mask(t, targets.row.size());
    offsets.push_back(static_cast<std::int32_t>(targets.row.size()));
  }
  /// With the experts that the trajectory has.
  void push_back(const trajectory& t, const data::prompt_dataset* prompts = nullptr) {
    push_back(t, prompts, t.routed_experts);
  }
  std::size_t size() const noexcept { return offsets.size() - 1; }

 private:
  /// Appends the experts of `count` tokens, which follow those of `tokens`; where there are none, the model routes.
  void push_experts(std::span<const std::int16_t> experts, std::size_t count) {
    const std::size_t before = tokens.values.size();
    if (routed_experts.empty() && experts.empty()) return;
    const std::size_t token_choices = experts.empty() ? routed_experts.size() / before : experts.size() / count;
    routed_experts.resize(before * token_choices, nn::expert_choices::no_expert);
    routed_experts.insert(routed_experts.end(), experts.begin(), experts.end());
    routed_experts.resize((before + count) * token_choices, nn::expert_choices::no_expert);
  }
  /// Appends the mask's rows of the trajectory's targets, the last of `count`; rows without tokens stand for no mask.
  void push_mask(const trajectory& t, std::size_t count) {
    const auto of_t = static_cast<std::size_t>(t.policy_length());
    while (targets.sampling_mask.rows() + (t.sampling_mask.empty() ? 0 : of_t) < count)
      targets.sampling_mask.push_back({});
    if (t.sampling_mask.empty()) return;
    const auto is_in = [](std::span<const rollout::context_run> runs, std::size_t& at, std::int32_t token) {
      while (at < runs.size() && runs[at].begin + runs[at].count <= token) ++at;
      return at < runs.size() && runs[at].begin <= token;
    };
    std::size_t row = 0, context = 0, left_out = 0;
    for (std::int32_t token = 0; token < t.response_length(); ++token) {
      if (is_in(t.context, context, token)) continue;
      if (!is_in(t.left_out(), left_out, token)) targets.sampling_mask.push_back(t.sampling_mask.row(row));
      ++row;
    }
  }
};

}  // namespace train
RLCORE_END
