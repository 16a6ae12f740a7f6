// One sampled response with everything the step learns about it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rlcore/core/fingerprint.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/tensor/view.hpp"
#include "rlcore/verify/verdict.hpp"

RLCORE_BEGIN
namespace train {

/// Whose the tokens of a response are, as lengths of runs: the policy's, context, the policy's, ...; empty without
/// context.
inline std::vector<std::int32_t> mask_runs(std::span<const rollout::context_run> context,
                                           std::int64_t response_length) {
  std::vector<std::int32_t> runs;
  std::int32_t end = 0;
  for (const rollout::context_run& run : context) {
    runs.push_back(run.begin - end), runs.push_back(run.count);
    end = run.begin + run.count;
  }
  if (!runs.empty()) runs.push_back(static_cast<std::int32_t>(response_length) - end);
  return runs;
}
/// The inverse of mask_runs(); nothing if such runs cannot be those of a response of this length, which begins and ends
/// with tokens of the policy.
inline std::optional<std::vector<rollout::context_run>> context_of(std::span<const std::int32_t> runs,
                                                                   std::int64_t response_length) {
  std::vector<rollout::context_run> context;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < runs.size(); end += runs[i++]) {
    if (runs[i] <= 0 || runs[i] > response_length - end) return {};
    if (i % 2 == 1) context.push_back({static_cast<std::int32_t>(end), runs[i]});
  }
  if (!runs.empty() && (runs.size() % 2 == 0 || end != response_length)) return {};
  return context;
}

/// The turns of a response and its tool calls.
struct conversation {
  std::int32_t turns = 0;  ///< the prompt, the policy's turns and replies to them; 0: a run of single turns
  std::int32_t calls = 0;  ///< of tools
  std::int32_t failures = 0, unread = 0;  ///< calls that failed; <tool_call> blocks that are no call
  double tool_reward = 0, seconds = 0;    ///< sums over the calls; the reward is not part of the score
  double reward = 0, score = 0;           ///< of the environment: sum over its answers, and its last score
};

/// Tokens of the policy that one step drew.
struct step_run {
  std::int64_t step = 0, count = 0;
  bool operator==(const step_run&) const = default;
};

/// Prompt and response in one token row. Per-token fields have one entry per response token that
/// the policy wrote and no correction rejected (rollout_logp: per token that the policy wrote).
struct trajectory {
  std::vector<std::int32_t> tokens;
  std::vector<rollout::context_run> context;    ///< what the policy did not write; the last token is always its own
  std::vector<rollout::context_run> untrained;  ///< if not empty: context and rejected tokens, which losses leave out
  std::int32_t prompt_length = 0;
  std::uint32_t row = 0;             ///< row of the data set
  std::uint32_t sample = 0;          ///< of that row in this step, from 0
  std::int64_t sampled_step = 0;     ///< in which step it was sampled, or begun
  std::vector<step_run> sampled_by;  ///< if several steps drew it: how much each, in order
  std::int64_t position = -1;        ///< with asynchronous training: of its prompt in the order of the data, from 0
  std::uint64_t sampled_ids = 0;     ///< ids_hash() of what was sampled, by which training checks; 0: not known
  std::vector<float> old_logp, entropy, ref_logp;
  /// If it has rows: for each token that the policy wrote what could be drawn in its place (nn::targets), where
  /// log-probs are over that.
  ragged<std::int32_t> sampling_mask;
  /// If not empty: the experts that a foreign engine has chosen for each token but the last
  /// (nn::input::routed_experts).
  std::vector<std::int16_t> routed_experts;
  std::int64_t kept_ref = -1;       ///< where ref_logp begins in actor::kept_ref, if it stays on the device
  std::vector<float> rollout_logp;  ///< as recorded while sampling, where old_logp was computed again
  rollout::finish reason = rollout::finish::length;
  verify::verdict verdict;          ///< of the reward function
  std::optional<double> accuracy;   ///< `acc` of the reward function or of the reward manager
  double length_penalty = 0;        ///< of the reward manager: 0 or negative
  float reward = 0;                 ///< score minus the KL penalty, if that is in the reward
  std::vector<float> token_reward;  ///< if not empty: the penalty of each response token, and the score at the last
  std::vector<float> weight;  ///< if not empty: importance weight of each response token, which scales its advantage
  float advantage = 0;
  std::vector<float> selected;           ///< if not empty: 0 or 1 for each response token, by a selection over the step
  std::vector<float> token_advantage;    ///< if not empty: one per response token, instead of `advantage`
  std::vector<float> value;              ///< of the critic, in the state before each response token
  std::vector<float> token_return;       ///< if not empty: what follows each response token, the critic's target
  std::vector<float> sum_squared_probs;  ///< of the old policy, if the estimator wants it
  float greedy_score = 0;                ///< of the most likely answer to the prompt, if the estimator wants it
  conversation talk;
  std::vector<double> turn_rewards;  ///< by the environment, one for each turn of the policy; empty: none
  bool rewarded_by_turn = false;     ///< estimators by token see them where they were given
  std::string agent_logs;            ///< JSON of the agent's numbers; empty: none
  std::string replies;               ///< while it is paused: conversations::replies()

  double score() const noexcept { return verdict.score + length_penalty; }
  /// Whether asynchronous training has left it for a later step to go on.
  bool paused() const noexcept { return reason == rollout::finish::paused; }

  /// Tokens behind the prompt: what a length limit counts, replies of tools included.
  std::int64_t response_length() const noexcept { return std::ssize(tokens) - prompt_length; }
  /// Response tokens that the policy wrote.
  std::int64_t written_length() const noexcept { return length_without(context); }
  /// What training leaves out.
  std::span<const rollout::context_run> left_out() const noexcept { return untrained.empty() ? context : untrained; }
  /// Response tokens that the policy wrote and no correction rejected: what losses, advantages and log-probs count.
  std::int64_t policy_length() const noexcept { return length_without(left_out()); }
  std::span<const std::int32_t> response() const noexcept {
    return std::span(tokens).subspan(static_cast<std::size_t>(prompt_length));
  }
  /// The score by token: the reward of each turn at its last token, the length penalty at the response's.
  std::vector<float> score_by_token() const {
    std::vector<float> all(static_cast<std::size_t>(policy_length()));
    std::vector<std::int32_t> runs = mask_runs(context, response_length());
    if (runs.empty()) runs.push_back(static_cast<std::int32_t>(response_length()));
    std::size_t end = 0;
    for (std::size_t turn = 0; turn < turn_rewards.size(); ++turn) {
      end += static_cast<std::size_t>(runs.at(2 * turn));
      all[end - 1] = static_cast<float>(turn_rewards[turn]);
    }
    if (!all.empty()) all.back() += static_cast<float>(length_penalty);
    return all;
  }
  /// Whether there is no sampling mask, or one of ascending ids, or of none, for each token that the policy wrote,
  /// which has the token.
  bool mask_fits() const noexcept {
    const std::vector<std::int32_t>& offsets = sampling_mask.offsets;
    const bool whole = !offsets.empty() && offsets.front() == 0 && std::ranges::is_sorted(offsets) &&
                       offsets.back() == std::ssize(sampling_mask.values);
    if (!whole || sampling_mask.empty()) return whole && sampling_mask.values.empty();
    if (static_cast<std::int64_t>(sampling_mask.rows()) != written_length()) return false;
    std::size_t i = 0;
    const auto fits_until = [&](std::int64_t token, std::int64_t end) {
      for (; token < end; ++token, ++i) {
        const std::span<const std::int32_t> ids = sampling_mask.row(i);
        if (ids.empty()) continue;
        if (ids.front() < 0 || std::ranges::adjacent_find(ids, std::greater_equal()) != ids.end() ||
            !std::ranges::binary_search(ids, tokens[static_cast<std::size_t>(token)]))
          return false;
      }
      return true;
    };
    std::int64_t begin = prompt_length;
    for (const rollout::context_run& run : context) {
      if (!fits_until(begin, prompt_length + run.begin)) return false;
      begin = prompt_length + run.begin + run.count;
    }
    return fits_until(begin, std::ssize(tokens));
  }
  /// A hash of the tokens and of whose they are.
  std::uint64_t ids_hash() const noexcept {
    fingerprint hash;
    hash.add(tokens);
    hash.add(static_cast<std::uint64_t>(prompt_length));
    for (const rollout::context_run& run : context)
      hash.add(static_cast<std::uint64_t>(run.begin)), hash.add(static_cast<std::uint64_t>(run.count));
    return hash.word();
  }

 private:
  std::int64_t length_without(std::span<const rollout::context_run> runs) const noexcept {
    std::int64_t count = response_length();
    for (const rollout::context_run& run : runs) count -= run.count;
    return count;
  }
};

}  // namespace train
RLCORE_END
