// Rollout log (trainer.rollout_data_dir): responses and scores of a step, one JSON line per response.
#pragma once

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/telemetry/tensorboard.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace train {

/// A log-prob with the few digits that tell floats apart.
double short_decimal(float x);

/// Moves <folder>/<step>.jsonl of steps after `last_step` out of the way, as set_aside() does.
std::filesystem::path set_aside_rollouts(const std::filesystem::path& folder, std::int64_t last_step);

/// Writes <folder>/<step>.jsonl with verl's keys: input, output, gts, score, step; and what rlcore.replay needs to get
/// the same bits: row of the data set, sample, prompt_ids, response_ids, log_probs, as recorded while sampling, and
/// sampled_step, where dynamic sampling kept the response from an earlier step; in runs of several turns: num_turns,
/// tool_calls, turn_rewards, turn_score and extra_logs where an environment gave them, and mask, the lengths of the
/// runs of tokens that the policy wrote and did not write in turn, if there are such; log_probs are those of the
/// policy's tokens. `with_overlong` adds overlong_reward, the penalty that is part of the score, and overlong, whether
/// there is one. Throws file_error.
void write_rollouts(const std::filesystem::path& folder, std::int64_t step, std::span<const trajectory> batch,
                    const data::prompt_dataset& prompts, const text::tokenizer& tokenizer, bool with_overlong = false);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE double short_decimal(float x) {
  char text[32];
  double out = static_cast<double>(x);
  const auto end = std::to_chars(text, text + sizeof text, x).ptr;
  double close = 0;
  if (std::from_chars(text, end, close).ec == std::errc() && static_cast<float>(close) == x) out = close;
  return out;
}

RLCORE_INLINE std::filesystem::path set_aside_rollouts(const std::filesystem::path& folder, std::int64_t last_step) {
  return set_aside(folder, [&](const std::string& name) {
    std::int64_t step = 0;
    const auto number = std::from_chars(name.data(), name.data() + name.size(), step);
    return number.ec == std::errc() && std::string_view(number.ptr) == ".jsonl" && step > last_step;
  });
}

RLCORE_INLINE void write_rollouts(const std::filesystem::path& folder, std::int64_t step,
                                  std::span<const trajectory> batch, const data::prompt_dataset& prompts,
                                  const text::tokenizer& tokenizer, bool with_overlong) {
  std::string lines;
  for (const trajectory& t : batch) {
    std::vector<double> logp;
    for (const float x : t.rollout_logp.empty() ? t.old_logp : t.rollout_logp) logp.push_back(short_decimal(x));
    nlohmann::ordered_json line{
        {"input", tokenizer.decode(std::span(t.tokens).first(static_cast<std::size_t>(t.prompt_length)))},
        {"output", tokenizer.decode(t.response(), true)},
        {"gts", prompts[t.row].ground_truth},
        {"score", t.score()},
        {"step", step},
        {"row", t.row},
        {"sample", t.sample},
        {"prompt_ids", std::span(t.tokens).first(static_cast<std::size_t>(t.prompt_length))},
        {"response_ids", t.response()},
        {"log_probs", std::move(logp)}};
    if (with_overlong) line["overlong_reward"] = t.length_penalty, line["overlong"] = t.length_penalty < 0;
    if (t.sampled_step != 0 && t.sampled_step != step) line["sampled_step"] = t.sampled_step;
    if (t.talk.turns > 0) line["num_turns"] = t.talk.turns, line["tool_calls"] = t.talk.calls;
    if (!t.turn_rewards.empty()) line["turn_rewards"] = t.turn_rewards, line["turn_score"] = t.talk.score;
    if (!t.agent_logs.empty()) line["extra_logs"] = nlohmann::json::parse(t.agent_logs);
    if (!t.context.empty()) line["mask"] = mask_runs(t.context, t.response_length());
    lines += text::json_text(line) + "\n";
  }
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw file_error(folder.string() + ": cannot create the folder: " + failure.message());
  checkpoint::write_file_atomically(folder / (std::to_string(step) + ".jsonl"), lines);
}

}  // namespace train
RLCORE_END
#endif
