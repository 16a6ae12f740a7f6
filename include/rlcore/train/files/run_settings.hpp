// Run folder: lock for one run at a time, settings.json with the settings that determine its numbers, which of them may
// change on resume, earlier runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/folder_lock.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/config/check_value.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/telemetry/logger.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/train/files/model_files.hpp"

RLCORE_BEGIN
namespace train {

/// Key names; `*` at one end is a wildcard. docs/checkpoints.md lists them. All other keys change the numbers of a run.
inline constexpr std::string_view free_settings[] = {
    // where it runs
    "trainer.device", "rlcore.npu*", "rlcore.cuda*", "trainer.nnodes", "trainer.n_gpus_per_node", "rlcore.threads",
    "rlcore.instruction_set", "rlcore.deadline_s", "rlcore.compare_collectives", "rlcore.zero_stage", "*_parallel_size",
    "*.megatron.*", "*.fsdp_config.*", "*.strategy", "rlcore.context_kind", "rlcore.reduction",
    "rlcore.gradient_leaves", "rlcore.row_chunks", "rlcore.reduce_dtype", "zero_stage", "ring_attn_size", "zpg",
    "local_rank",
    // how much memory it takes
    "*micro_batch_size*", "*micro_train_batch_size", "*micro_rollout_batch_size", "*use_dynamic_bsz",
    "*max_token_len_per_gpu", "*gradient_checkpointing*", "*gpu_memory_utilization", "*max_num_seqs",
    "*max_num_batched_tokens", "*enable_chunked_prefill", "*enable_prefix_caching", "*update_weights_bucket_megabytes",
    "rlcore.logits_memory_mb", "rlcore.image_cache_mb", "rlcore.max_decode_batch", "adam_offload",
    "rlcore.offload_folder",
    // run length, evaluation, logging and saving
    "trainer.total_epochs", "trainer.total_training_steps", "rollout.total_rollout_steps", "rollout.test_freq",
    "max_epochs", "num_episodes", "*val_*", "trainer.test_freq", "*eval_*", "trainer.logger", "rlcore.logger",
    "rlcore.console", "rlcore.trace", "rlcore.trace_steps", "logging_steps", "*use_wandb*", "wandb_*",
    "*use_tensorboard", "rlcore.tensorboard_dir", "trainer.project_name", "trainer.experiment_name", "rlcore.report",
    "*show_mask", "trainer.save_freq", "save_*", "max_ckpt_*", "*ckpt_to_keep", "*.checkpoint.*",
    "trainer.rollout_data_dir", "rlcore.export_*", "trainer.resume_*", "load_checkpoint", "rlcore.replay_wait_s",
    "rlcore.reward_timeout", "rlcore.tool_timeout_s", "rlcore.tool_processes", "*agent.num_workers",
    // where files are: a folder may have moved
    "trainer.default_local_dir", "ckpt_path", "*input_tokenizer", "*train_files", "dataset", "prompt_data",
    "rlcore.replay"};

/// Model folders; they may have moved, but their weights must be the same.
inline constexpr std::string_view model_settings[] = {"*model.path", "*.partial_pretrain", "pretrain", "*_pretrain"};

/// Whether one of `patterns` is or matches the key.
constexpr bool names_setting(std::span<const std::string_view> patterns, std::string_view key) noexcept {
  return std::any_of(patterns.begin(), patterns.end(), [key](std::string_view pattern) {
    const bool before = pattern.starts_with('*'), after = pattern.ends_with('*');
    if (before) pattern.remove_prefix(1);
    if (after) pattern.remove_suffix(1);
    if (before && after) return key.find(pattern) != key.npos;
    return before ? key.ends_with(pattern) : after ? key.starts_with(pattern) : key == pattern;
  });
}

/// Whether the key may change on resume.
constexpr bool is_free_setting(std::string_view key) noexcept {
  return names_setting(free_settings, key) || names_setting(model_settings, key);
}

/// Whether the command line uses OpenRLHF's flags: the program has no other options, or a policy run has --pretrain.
inline bool uses_openrlhf_flags(const options& opt) {
  const registry& known = opt.known();
  return known.find("load_checkpoint") != nullptr &&
         (known.find("trainer.resume_mode") == nullptr || opt.is_set("pretrain"));
}

/// "run the same command again", with the options to add if the command as is does not resume (`not_resumed`).
inline std::string resuming_text(const options& opt, bool not_resumed) {
  const char* more = uses_openrlhf_flags(opt) ? "--load_checkpoint" : "trainer.resume_mode=auto";
  return "run the same command again" + (not_resumed ? " with " + std::string(more) : std::string());
}

/// Message printed on resume: after `step` of `total`, from the checkpoint in `folder`.
std::string resumed_text(const options& opt, std::int64_t step, std::int64_t total, const std::string& folder);

/// The note about an earlier run: where its metrics are now, and how to resume from its checkpoint instead; "" without
/// an earlier run. `root` is the folder of the run, before its first checkpoint. After a resume from `resumed_step`
/// (negative: fresh run): where the rows of later steps are.
std::string earlier_run_note(const options& opt, const logger& log, const std::filesystem::path& root,
                             std::int64_t resumed_step);

inline constexpr const char* run_settings_name = "settings.json";

/// The keys that change the numbers of a run, and their values as text.
nlohmann::ordered_json numeric_settings(const options& opt);

/// The keys that name models, each with the sampled_fingerprint() of the weights. An unreadable model is left out; its
/// loader reports the error.
nlohmann::ordered_json model_fingerprints(const options& opt);

/// Writes the settings of a run that begins in `root`. `data` describes the training rows; empty: not recorded. Throws
/// file_error.
void write_run_settings(const std::filesystem::path& root, const options& opt, const std::string& data = {});

/// Locks `root` for the run of `opt`, if this rank writes its files. Throws config_error if another run holds the lock;
/// file_error.
inline checkpoint::folder_lock lock_run(const std::filesystem::path& root, const options& opt, bool writes) {
  if (!writes) return {};
  const bool flags = uses_openrlhf_flags(opt);
  return {root, flags ? "name another --ckpt_path" : "name another trainer.default_local_dir"};
}

namespace detail {

/// A setting as it was typed, and its two values.
struct setting_change {
  std::string name, then, here;
};

/// The members of `now` with a different text in `before`.
std::vector<setting_change> changes_of(const nlohmann::json& before, const nlohmann::ordered_json& now,
                                       const options& opt);

}  // namespace detail

/// Throws config_error if the run that `opt` continues in `root` began with other values of settings that change its
/// numbers, with other weights of a model, or with other `data`: the message names them and the remedies. Keys unknown
/// to either side and unrecorded values are not compared; a folder without the file belongs to an older run.
void check_run_settings(const std::filesystem::path& root, const options& opt, const std::string& data = {});

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_RUN)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::string resumed_text(const options& opt, std::int64_t step, std::int64_t total,
                                       const std::string& folder) {
  std::string text = "resumed after step " + std::to_string(step) + " from " + folder + "\n";
  if (step < total) return text;
  const char* more = !uses_openrlhf_flags(opt) ? "trainer.total_epochs or trainer.total_training_steps"
                     : opt.known().find("num_episodes") != nullptr ? "--num_episodes"
                                                                   : "--max_epochs";
  return text + "note: all " + std::to_string(total) + " steps are done; a larger " + more + " goes on\n";
}

RLCORE_INLINE std::string earlier_run_note(const options& opt, const logger& log, const std::filesystem::path& root,
                                           std::int64_t resumed_step) {
  if (log.earlier().empty() && log.earlier_events().empty()) return {};
  if (resumed_step >= 0)
    return "note: the metrics of the steps after " + std::to_string(resumed_step) + " are in " +
           log.earlier().string() + " now";
  std::string text = "note: " + root.string() + " holds an earlier run: its ";
  if (!log.earlier().empty()) text += "metrics are in " + log.earlier().string();
  if (!log.earlier_events().empty())
    text += (log.earlier().empty() ? "event files are in " : ", its event files in ") + log.earlier_events().string();
  std::optional<std::int64_t> step;
  try {
    step = checkpoint::read_tracker(root);
  } catch (const error&) {  // a run that does not continue does not need the tracker
  }
  if (!step || !std::filesystem::is_directory(checkpoint::step_folder(root, *step))) return text;
  const bool flags = uses_openrlhf_flags(opt);
  return text + " now, a checkpoint of it stays until this run writes the same step; " +
         (flags ? "--load_checkpoint" : "trainer.resume_mode=auto") + " goes on from step " + std::to_string(*step) +
         " instead";
}

RLCORE_INLINE nlohmann::ordered_json numeric_settings(const options& opt) {
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();
  for (const key& k : opt.known().keys())
    if (k.use == disposition::honoured && !is_free_setting(k.name) && !opt.known().is_spelling(k.name))
      settings[std::string(k.name)] = inline_text(opt.at(std::string(k.name)));
  return settings;
}

RLCORE_INLINE nlohmann::ordered_json model_fingerprints(const options& opt) {
  nlohmann::ordered_json models = nlohmann::ordered_json::object();
  for (const key& k : opt.known().keys()) {
    if (k.use != disposition::honoured || !names_setting(model_settings, k.name)) continue;
    try {
      if (const auto model = opt.find<std::string>(k.name))
        models[std::string(k.name)] = sampled_fingerprint(checkpoint::resolve_model(*model));
    } catch (const error&) {
    }
  }
  return models;
}

RLCORE_INLINE void write_run_settings(const std::filesystem::path& root, const options& opt, const std::string& data) {
  nlohmann::ordered_json file{
      {"program", opt.known().program}, {"settings", numeric_settings(opt)}, {"models", model_fingerprints(opt)}};
  if (!data.empty()) file["data"] = data;
  checkpoint::write_file_atomically(root / run_settings_name, text::json_text(file, 2) + "\n");
}

}  // namespace train

namespace train::detail {

RLCORE_INLINE std::vector<setting_change> changes_of(const nlohmann::json& before, const nlohmann::ordered_json& now,
                                                     const options& opt) {
  std::vector<setting_change> changes;
  for (const auto& [name, value] : now.items()) {
    const std::string flag = opt.typed().flag_of(name);
    if (!flag.empty() && now.contains(flag.substr(2))) continue;  // the flag is compared
    const bool is_flag = name.find('.') == std::string::npos && !opt.known().flags().empty();
    if (const auto old = before.find(name);
        old != before.end() && old->is_string() && old->get<std::string>() != value.get<std::string>())
      changes.push_back({std::string(is_flag ? "--" : "") + name, old->get<std::string>(), value.get<std::string>()});
  }
  return changes;
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE void check_run_settings(const std::filesystem::path& root, const options& opt, const std::string& data) {
  if (!std::filesystem::exists(root / run_settings_name)) return;
  const checkpoint::json_file file(root / run_settings_name);
  if (!file.root().contains("settings") || !file.root()["settings"].is_object()) file.fail("settings", "an object");
  std::string changed;
  const auto add = [&](const std::string& what) { changed += (changed.empty() ? "" : ", ") + what; };
  for (const auto& [name, then, here] : detail::changes_of(file.root()["settings"], numeric_settings(opt), opt))
    add(name + " was " + then + " and is " + here);
  if (const auto models = file.root().find("models"); models != file.root().end() && models->is_object())
    for (const auto& change : detail::changes_of(*models, model_fingerprints(opt), opt))
      add(change.name + " was a model with other weights");
  const auto text = [&](const char* name) { return file.root().value(name, std::string()); };
  if (changed.empty() && !data.empty() && !text("data").empty() && text("data") != data)  // or a changed key
    changed = "the training data were " + text("data") + ", and are " + data;
  if (changed.empty()) return;
  const bool flags = uses_openrlhf_flags(opt);
  const std::string whose = text("program") == opt.known().program ? "" : " of " + text("program");
  throw config_error(root.string() + " holds a run" + whose + " with other settings: " + changed +
                     "; go on with the former ones, or " +
                     (flags ? "begin anew without --load_checkpoint or in another --ckpt_path"
                            : "begin anew with trainer.resume_mode=disable or in another trainer.default_local_dir"));
}

}  // namespace train
RLCORE_END
#endif
