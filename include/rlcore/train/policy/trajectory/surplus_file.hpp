// Surplus trajectories of a checkpoint, kept bit-exactly for the next step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace train {

inline constexpr const char* surplus_file_name = "surplus.cbor";

/// Writes `folder`/surplus.cbor (RFC 8949), unless there is nothing to keep.
void write_surplus(const std::filesystem::path& folder, std::span<const trajectory> surplus);

/// Reads the file of write_surplus(); returns nothing where there is none. Throws format_error.
std::vector<trajectory> read_surplus(const std::filesystem::path& folder);

/// Throws config_error where groups that a checkpoint holds belong to other data. `other_prompts`: an agent may have
/// changed the prompts.
void check_surplus(std::span<const trajectory> surplus, const data::prompt_dataset& train,
                   const std::filesystem::path& folder, bool other_prompts = false);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE void write_surplus(const std::filesystem::path& folder, std::span<const trajectory> surplus) {
  if (surplus.empty()) return;
  nlohmann::json rows = nlohmann::json::array();
  for (const trajectory& t : surplus) {
    nlohmann::json j{{"tokens", t.tokens},
                     {"prompt_length", t.prompt_length},
                     {"row", t.row},
                     {"sample", t.sample},
                     {"old_logp", t.old_logp},
                     {"rollout_logp", t.rollout_logp},
                     {"entropy", t.entropy},
                     {"reason", static_cast<int>(t.reason)},
                     {"score", t.verdict.score},
                     {"why", static_cast<int>(t.verdict.why)},
                     {"length_penalty", t.length_penalty},
                     {"reward", t.reward},
                     {"sampled_step", t.sampled_step},
                     {"sampled_ids", t.sampled_ids}};
    if (t.position >= 0) j["position"] = t.position;
    for (const step_run& run : t.sampled_by) j["sampled_by"].push_back(run.step), j["sampled_by"].push_back(run.count);
    if (!t.sampling_mask.empty())
      j["sampling_mask"] = {{"values", t.sampling_mask.values}, {"offsets", t.sampling_mask.offsets}};
    if (!t.routed_experts.empty()) j["routed_experts"] = t.routed_experts;
    if (t.verdict.acc) j["acc"] = *t.verdict.acc;
    if (!t.verdict.has_reason) j["has_reason"] = false;
    if (t.verdict.pred) j["pred"] = nlohmann::json::binary({t.verdict.pred->begin(), t.verdict.pred->end()});
    if (t.accuracy) j["accuracy"] = *t.accuracy;
    if (t.talk.turns > 0)
      j["talk"] = {t.talk.turns,       t.talk.calls,   t.talk.failures, t.talk.unread,
                   t.talk.tool_reward, t.talk.seconds, t.talk.reward,   t.talk.score};
    if (!t.turn_rewards.empty()) j["turn_rewards"] = t.turn_rewards;
    if (!t.agent_logs.empty()) j["agent_logs"] = t.agent_logs;
    if (!t.replies.empty()) j["replies"] = t.replies;
    if (t.rewarded_by_turn) j["rewarded_by_turn"] = true;
    if (!t.context.empty()) j["mask"] = mask_runs(t.context, t.response_length());
    rows.push_back(std::move(j));
  }
  const std::vector<std::uint8_t> bytes = nlohmann::json::to_cbor(rows);
  checkpoint::write_file_atomically(folder / surplus_file_name, std::string(bytes.begin(), bytes.end()));
}

RLCORE_INLINE std::vector<trajectory> read_surplus(const std::filesystem::path& folder) {
  std::vector<trajectory> surplus;
  const std::filesystem::path path = folder / surplus_file_name;
  if (!std::filesystem::exists(path)) return surplus;
  try {
    for (const nlohmann::json& j : text::parse_cbor<format_error>(data::read_file(path), path.string())) {
      trajectory t;
      const auto integer = [&]<class T>(const char* name, T& to) { to = text::get_exactly<T>(j.at(name)); };
      integer("tokens", t.tokens);
      integer("prompt_length", t.prompt_length);
      integer("row", t.row);
      integer("sample", t.sample);
      j.at("old_logp").get_to(t.old_logp);
      j.at("rollout_logp").get_to(t.rollout_logp);
      j.at("entropy").get_to(t.entropy);
      const auto reason = text::get_exactly<std::uint8_t>(j.at("reason")),
                 why = text::get_exactly<std::uint8_t>(j.at("why"));
      t.reason = static_cast<rollout::finish>(reason);
      j.at("score").get_to(t.verdict.score);
      t.verdict.why = static_cast<verify::reason>(why);
      j.at("length_penalty").get_to(t.length_penalty);
      j.at("reward").get_to(t.reward);
      integer("sampled_step", t.sampled_step);
      if (j.contains("sampled_ids")) integer("sampled_ids", t.sampled_ids);
      if (j.contains("position")) integer("position", t.position);
      std::int64_t drawn = 0;  // by all steps of sampled_by
      if (j.contains("sampled_by")) {
        const auto runs = text::get_exactly<std::vector<std::int32_t>>(j["sampled_by"]);
        for (std::size_t i = 1; i < runs.size(); i += 2)
          t.sampled_by.push_back({runs[i - 1], runs[i]}), drawn += runs[i] > 0 ? runs[i] : INT32_MAX;
      }
      if (j.contains("sampling_mask")) {
        t.sampling_mask.values = text::get_exactly<std::vector<std::int32_t>>(j["sampling_mask"].at("values"));
        t.sampling_mask.offsets = text::get_exactly<std::vector<std::int32_t>>(j["sampling_mask"].at("offsets"));
      }
      if (j.contains("routed_experts"))
        t.routed_experts = text::get_exactly<std::vector<std::int16_t>>(j["routed_experts"]);
      if (j.contains("turn_rewards")) j["turn_rewards"].get_to(t.turn_rewards);
      if (j.contains("agent_logs")) j["agent_logs"].get_to(t.agent_logs);
      if (j.contains("replies")) j["replies"].get_to(t.replies);
      t.verdict.has_reason = j.value("has_reason", true);
      if (j.contains("acc")) t.verdict.acc = j["acc"].get<bool>();
      if (j.contains("pred")) t.verdict.pred.emplace(j["pred"].get_binary().begin(), j["pred"].get_binary().end());
      if (j.contains("accuracy")) t.accuracy = j["accuracy"].get<double>();
      std::optional<std::vector<rollout::context_run>> context{std::in_place};
      if (j.contains("mask"))
        context = context_of(text::get_exactly<std::vector<std::int32_t>>(j["mask"]), t.response_length());
      t.context = context.value_or(t.context);
      t.rewarded_by_turn = j.value("rewarded_by_turn", false) && t.turn_rewards.size() == t.context.size() + 1;
      if (j.contains("talk")) {
        const nlohmann::json& talk = j["talk"];
        const auto number = [&](std::size_t i) { return text::get_exactly<std::int32_t>(talk.at(i)); };
        const auto real = [&](std::size_t i) { return i < talk.size() ? talk[i].get<double>() : 0.0; };
        t.talk = {number(0), number(1), number(2), number(3), real(4), real(5), real(6), real(7)};
      }
      const bool fits =
          t.prompt_length > 0 && std::ssize(t.tokens) > t.prompt_length && context &&
          (t.sampled_by.empty() || drawn == t.written_length()) && std::ssize(t.old_logp) == t.policy_length() &&
          t.mask_fits() && t.routed_experts.size() % (t.tokens.size() - 1) == 0 &&
          reason <= static_cast<std::uint8_t>(rollout::finish::paused) && why < verify::reason_names.size();
      if (!fits) throw format_error(path.string() + ": a trajectory whose parts do not fit each other");
      surplus.push_back(std::move(t));
    }
  } catch (const nlohmann::json::exception&) {
    throw format_error(path.string() + ": trajectory " + std::to_string(surplus.size()) +
                       " is not what a checkpoint holds");
  }
  return surplus;
}

RLCORE_INLINE void check_surplus(std::span<const trajectory> surplus, const data::prompt_dataset& train,
                                 const std::filesystem::path& folder, bool other_prompts) {
  for (const trajectory& t : surplus)
    if (t.row >= train.size() ||
        (!other_prompts && (t.prompt_length != std::ssize(train[t.row].ids) ||
                            !std::equal(train[t.row].ids.begin(), train[t.row].ids.end(), t.tokens.begin()))))
      throw config_error((folder / surplus_file_name).string() +
                         ": holds answers to other prompts than data.train_files has now; train on the same files, or "
                         "pass trainer.resume_mode=disable");
}

}  // namespace train
RLCORE_END
#endif
