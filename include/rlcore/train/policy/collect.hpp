// Collects trajectories: rollout, KL in the reward, advantages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/agent/conversations.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/objective/advantage/token_rewards.hpp"
#include "rlcore/objective/controller.hpp"
#include "rlcore/rollout/engine.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/train/model/answer_requests.hpp"
#include "rlcore/train/model/scored_groups.hpp"
#include "rlcore/train/policy/settings.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace train {

/// The responses that rank `number` of `of` samples, out of `samples` for each of `prompts` prompts. A rank gets whole
/// groups if there is at least one for every rank.
inline row_range share_of_responses(std::size_t prompts, std::size_t samples, std::int64_t of, std::int64_t number) {
  const auto parts = static_cast<std::size_t>(of), part = static_cast<std::size_t>(number);
  if (prompts < parts) return even_share(prompts * samples, parts, part);
  const row_range shard = even_share(prompts, parts, part);
  return {shard.first * samples, shard.last * samples};
}

/// Prompt and response in one row of tokens.
trajectory make_trajectory(const rollout::request& asked, rollout::response&& answer);

/// Appends what step `step` has drawn of the response; the first time this sets sampled_step.
void append_response(trajectory& t, const rollout::response& more, std::int64_t step);

/// Samples `samples` responses for each listed row of the data set, prompt by prompt (p0 p0 ... p1 p1 ...). `share`
/// restricts them to a range. The text of a response is a function of (key, row, sample, weights) alone, and of what
/// `turns` appends, if it is given.
template <class Device, class Progress>
std::vector<trajectory> sample(rollout::engine<Device>& engine, const nn::causal_lm<Device>& model,
                               nn::workspace<Device>& space, const data::prompt_dataset& prompts,
                               std::span<const std::uint32_t> rows, std::int64_t samples,
                               const rollout::generation& settings, random_key key, Progress&& progress,
                               std::optional<row_range> share = {}, rollout::turn_source* turns = nullptr) {
  const auto group = static_cast<std::size_t>(samples);
  const row_range shard = share.value_or(row_range{0, rows.size() * group});
  std::vector<rollout::request> requests;
  for (std::size_t i = shard.first; i < shard.last; ++i)
    requests.push_back({prompts[rows[i / group]].ids, rows[i / group], static_cast<std::uint32_t>(i % group)});
  if (turns != nullptr) turns->prepare(requests);
  std::vector<rollout::response> responses =
      answer_requests(engine, model, space, requests, prompts, settings, key, progress, turns);
  std::vector<trajectory> batch;
  for (std::size_t i = 0; i < requests.size(); ++i)
    batch.push_back(make_trajectory(requests[i], std::move(responses[i])));
  return batch;
}

/// A paused response, to resume its conversation; `t` must outlive it.
inline agent::paused_conversation paused_conversation_of(const trajectory& t) {
  agent::conversation_record r;
  r.assistant_turns = r.user_turns = static_cast<std::int32_t>(t.context.size());
  r.calls = t.talk.calls, r.failures = t.talk.failures, r.unread = t.talk.unread;
  r.tool_reward = t.talk.tool_reward, r.seconds = t.talk.seconds;
  r.reward = t.talk.reward, r.score = t.talk.score;
  return {r,         t.turn_rewards, t.agent_logs,
          t.replies, t.context,      std::span(t.tokens).first(static_cast<std::size_t>(t.prompt_length))};
}

/// Sets trajectory::talk, turn_rewards, agent_logs and replies of the responses that `talks` went through, in order.
inline void note_conversations(std::span<trajectory> batch, const agent::conversations& talks) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const agent::conversation_record& r = talks.records()[i];
    trajectory& t = batch[i];
    t.talk = {r.assistant_turns + r.user_turns + 1,
              r.calls,
              r.failures,
              r.unread,
              r.tool_reward,
              r.seconds,
              r.reward,
              r.score};
    t.turn_rewards.assign(talks.turn_rewards(i).begin(), talks.turn_rewards(i).end());
    t.agent_logs = talks.logs(i);
    t.replies = t.paused() ? talks.replies(i) : "";
    if (!t.turn_rewards.empty()) t.turn_rewards.resize(static_cast<std::size_t>(r.assistant_turns));
  }
}

/// Subtracts the KL penalty, summed over the response, from every reward (verl's use_kl_in_reward). Returns the KL as
/// verl logs it: the mean over responses of the mean over their tokens.
double penalise_rewards(std::vector<trajectory>& batch, const kl_in_reward& penalty);

/// Subtracts coefficient x KL from the rewards of `batch`, sets actor/reward_kl_penalty and
/// actor/reward_kl_penalty_coeff, and moves an adaptive coefficient to its value in the next step.
inline void subtract_kl_from_rewards(std::vector<trajectory>& batch, const reward_kl_settings& k, double& coefficient,
                                     metrics& numbers) {
  const double kl = penalise_rewards(batch, {k.kind, coefficient});
  numbers.set("actor/reward_kl_penalty", kl);
  numbers.set("actor/reward_kl_penalty_coeff", coefficient);
  if (k.adaptive)
    coefficient = adaptive_kl{coefficient, k.target, k.horizon}.updated(kl, std::ssize(batch)).coefficient;
}

}  // namespace train

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE trajectory make_trajectory(const rollout::request& asked, rollout::response&& answer) {
  trajectory t;
  t.row = asked.prompt_number;
  t.sample = asked.sample;
  t.tokens.assign(asked.prompt.begin(), asked.prompt.end());
  t.prompt_length = static_cast<std::int32_t>(t.tokens.size());
  t.tokens.insert(t.tokens.end(), answer.tokens.begin(), answer.tokens.end());
  t.old_logp = std::move(answer.logp);
  t.entropy = std::move(answer.entropy);
  t.sampling_mask = std::move(answer.sampling_mask);
  t.context = std::move(answer.context);
  t.reason = answer.reason;
  t.sampled_ids = t.ids_hash();
  return t;
}

RLCORE_INLINE void append_response(trajectory& t, const rollout::response& more, std::int64_t step) {
  if (t.response_length() == 0) {
    t.sampled_step = step;
  } else if (const std::int64_t last = t.sampled_by.empty() ? t.sampled_step : t.sampled_by.back().step; last != step) {
    if (t.sampled_by.empty()) t.sampled_by.push_back({t.sampled_step, t.written_length()});
    t.sampled_by.push_back({step, std::ssize(more.logp)});
  } else if (!t.sampled_by.empty()) {
    t.sampled_by.back().count += std::ssize(more.logp);
  }
  for (rollout::context_run run : more.context)
    t.context.push_back({run.begin + static_cast<std::int32_t>(t.response_length()), run.count});
  t.tokens.insert(t.tokens.end(), more.tokens.begin(), more.tokens.end());
  t.old_logp.insert(t.old_logp.end(), more.logp.begin(), more.logp.end());
  t.entropy.insert(t.entropy.end(), more.entropy.begin(), more.entropy.end());
  for (std::size_t i = 0; i < more.sampling_mask.rows(); ++i) t.sampling_mask.push_back(more.sampling_mask.row(i));
  t.reason = more.reason;
  t.sampled_ids = t.ids_hash();
}

RLCORE_INLINE double penalise_rewards(std::vector<trajectory>& batch, const kl_in_reward& penalty) {
  double mean = 0;
  for (trajectory& t : batch) {
    t.token_reward.resize(t.old_logp.size());
    const shaped_reward shaped = penalty(t.score(), t.old_logp, t.ref_logp, t.token_reward);
    t.reward = static_cast<float>(shaped.reward);
    if (t.rewarded_by_turn) {  // instead of the whole score at the last token
      const std::vector<float> at_turns = t.score_by_token();
      penalty(0, t.old_logp, t.ref_logp, t.token_reward);
      std::transform(at_turns.begin(), at_turns.end(), t.token_reward.begin(), t.token_reward.begin(), std::plus());
    }
    mean += shaped.mean_kl;
  }
  return mean / static_cast<double>(batch.size());
}

}  // namespace train
RLCORE_END
#endif
