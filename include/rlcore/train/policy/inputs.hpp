// Inputs of a policy run: tokenizer, prompts (from files to tokens), rewards, and the batch plan.
#pragma once

#include <fmt/format.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/preprocessor_config.hpp"
#include "rlcore/config/settings/batch_plan.hpp"
#include "rlcore/config/settings/model_options.hpp"
#include "rlcore/data/blend.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/data/table.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/train/files/export_model.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "rlcore/train/model/images.hpp"
#include "rlcore/train/policy/check_memory.hpp"
#include "rlcore/train/policy/open.hpp"
#include "rlcore/train/policy/reward/open_rewards.hpp"
#include "rlcore/train/policy/reward/reward_source.hpp"
#include "rlcore/train/policy/settings.hpp"
#include "rlcore/train/policy/tools.hpp"
#include "rlcore/train/ranks/team.hpp"

RLCORE_BEGIN
namespace train {

/// Reads the prompts of all files, or of their first `most` rows; unless `quiet`, prints their number and the number
/// left out as too long. `images` sets how images are read: by default rows with images are rejected. `tools` are those
/// that prompts may show; null: none.
data::prompt_dataset open_prompts(const std::vector<std::string>& files, const policy_settings& s,
                                  const text::tokenizer& tokenizer, const text::chat_template& chat,
                                  const reward_source& rewards, const char* name, bool quiet = false,
                                  std::int64_t most = -1, const data::image_settings& images = {},
                                  const policy_tools* tools = nullptr);

/// The same for rows that rules score.
inline data::prompt_dataset open_prompts(const std::vector<std::string>& files, const policy_settings& s,
                                         const text::tokenizer& tokenizer, const text::chat_template& chat,
                                         const char* name, bool quiet = false) {
  return open_prompts(files, s, tokenizer, chat, rule_rewards(), name, quiet);
}

/// "8 prompts, fingerprint 0123456789abcdef": equal if tokens, images, sources and ground truths are, in the same
/// order.
std::string data_text(const data::prompt_dataset& prompts);

/// The number of prompts equal to an earlier one: published sets hold some problems dozens of times.
std::size_t count_copies(const data::prompt_dataset& prompts);

/// Opened and checked by open_policy_inputs(). Nothing here depends on the algorithm.
struct policy_inputs {
  const policy_settings settings;
  model_source model;  ///< of the policy; checkpoints have its chat template and tokenizer
  nn::config config;   ///< of the policy
  text::tokenizer tokenizer;
  std::vector<std::int32_t> eos_ids;  ///< a response ends at any of them
  opened_rewards rewards;
  std::unique_ptr<policy_tools> tools;  ///< null: every response has one turn
  data::prompt_dataset train, val;
  batch_plan plan;

  bool has_validation() const noexcept { return !settings.val_files.empty(); }
};

namespace detail {

/// The split to read from a folder: set by OpenRLHF's flag if `data_flag` named the folder, else `usual`.
inline std::string split_of_folders(const options& opt, const char* data_flag, const char* split_flag,
                                    const char* usual) {
  const bool by_flag = opt.known().find(data_flag) != nullptr && opt.is_set(data_flag);
  return by_flag ? opt.get<std::string>(split_flag) : usual;
}

/// The name of the path for the trained model, as the command line has it.
inline std::string export_key(const options& opt) {
  return opt.known().find("save_path") != nullptr && opt.is_set("save_path") ? "--save_path" : "rlcore.export_path";
}

/// Throws config_error unless the command line names a model and data that can be read; puts the files of folders into
/// the place of the folders.
void find_policy_files(const options& opt, policy_settings& s);

/// The config of the policy in `folder`. Throws format_error for a score model, for fewer tokens than the tokenizer has
/// and for other tokens of images; config_error for too few positions.
nn::config policy_config(const std::filesystem::path& folder, const policy_settings& s,
                         const text::tokenizer& tokenizer);

}  // namespace detail

template <class Device>
std::shared_ptr<policy_inputs> open_policy_inputs(Device& device, const options& opt, const team& ranks,
                                                  reward_source* custom_rewards,
                                                  std::vector<std::shared_ptr<agent::tool>> custom_tools) {
  policy_settings s = read_settings(opt);
  for (const std::string& note : opt.notes()) say("note: %s\n", note.c_str());
  detail::find_policy_files(opt, s);
  const std::filesystem::path folder = named_model(opt, "actor_rollout_ref.model.path", s.model_path);
  if (s.reward.model) s.reward.model->path = named_model(opt, "reward_model.model.path", s.reward.model->path).string();
  text::tokenizer tokenizer = text::tokenizer::load(folder);
  const std::string own_template = chat_template_setting(opt);
  const auto chat = text::chat_template::chosen(own_template, folder, "rlcore.chat_template");
  nn::config config = detail::policy_config(folder, s, tokenizer);
  config.eos_token_ids = checkpoint::end_tokens(folder, config.eos_token_ids, tokenizer.eos_id());
  std::vector<std::int32_t> eos = config.eos_token_ids;
  check_export_of(detail::export_key(opt), checkpoint::expand_home(s.export_path), config, folder);

  opened_rewards rewards(device, s.reward, folder, s.logits_bytes, ranks.world(), custom_rewards);
  const data::image_settings images = model_images(s.images, config, folder);
  if (images.processor) say("%s\n", image_text(images).c_str());
  std::unique_ptr<policy_tools> tools = open_policy_tools(s.tools, std::move(custom_tools), chat, tokenizer, eos);
  if (tools) say("%s\n", tools->text().c_str());
  if (!tools && opt.get<bool>("actor_rollout_ref.rollout.multi_turn.enable"))
    say("note: no tools are given (rollout.multi_turn.tool_config_path) and no interactions: every response has one "
        "turn\n");
  const auto open = [&](const std::vector<std::string>& files, const char* name, std::int64_t most) {
    return open_prompts(files, s, tokenizer, chat, *rewards, name, false, most, images, tools.get());
  };
  data::prompt_dataset train = open(s.train_files, "train", s.train_rows), val;
  if (!s.val_files.empty())
    val = open(s.val_files, "val", s.val_rows);
  else
    say("val    none: data.val_files is empty, so that nothing is validated\n");
  if (train.images.rows + val.images.rows > 0 && !rewards->reads_truth() && !s.reward.stored)
    throw config_error("rows with images: " + std::string(s.reward.agent ? "an agent" : "a reward model") +
                       " reads none here; score them by a rule or a program");
  if (const std::size_t copies = count_copies(train); copies > 0)
    say("note: %zu of %zu training prompts are copies of earlier ones\n", copies, train.size());
  batch_plan plan = make_batch_plan(opt, std::ssize(train.prompts), ranks.size());
  check_memory(plan, s, config, train, val, ranks);
  s.schedule.total_steps = plan.scheduled_steps;
  s.schedule.warmup_steps = plan.warmup_steps;
  s.root = checkpoint::expand_home(s.root).string();
  s.rollout_dir = checkpoint::expand_home(s.rollout_dir).string();
  return std::make_shared<policy_inputs>(policy_inputs{std::move(s),
                                                       {folder, own_template.empty() ? "" : chat.source()},
                                                       std::move(config),
                                                       std::move(tokenizer),
                                                       std::move(eos),
                                                       std::move(rewards),
                                                       std::move(tools),
                                                       std::move(train),
                                                       std::move(val),
                                                       std::move(plan)});
}

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train::detail {

RLCORE_INLINE void find_policy_files(const options& opt, policy_settings& s) {
  if (s.model_path == "~/models/deepseek-llm-7b-chat")  // verl's default, never intended
    throw config_error(
        "actor_rollout_ref.model.path is not given; expected a model folder or id (--help lists the keys)");
  if (s.train_files.empty()) throw config_error("data.train_files is empty; expected a file with training rows");
  if (s.val_files.empty() && s.val_only)
    throw config_error("trainer.val_only=True: data.val_files is empty; expected a file with validation rows");
  const auto find = [&](const char* key, std::vector<std::string>& files, const std::string& split) {
    files.clear();
    const auto check = [&](const std::filesystem::path& place) {
      for (const std::filesystem::path& file : data::table_files(place, split)) {
        data::check_table(file);
        files.push_back(file.string());
      }
    };
    check_data_files(opt, key, check);
  };
  if (!s.export_path.empty()) check_export(export_key(opt), checkpoint::expand_home(s.export_path));
  find("data.train_files", s.train_files, split_of_folders(opt, "prompt_data", "prompt_split", "train"));
  find("data.val_files", s.val_files, split_of_folders(opt, "eval_dataset", "eval_split", "test"));
}

RLCORE_INLINE nn::config policy_config(const std::filesystem::path& folder, const policy_settings& s,
                                       const text::tokenizer& tokenizer) {
  nn::config config = checkpoint::read_stored_config(folder);
  if (config.output != nn::model_output::logits)
    throw format_error((folder / "config.json").string() +
                       ": a score model cannot be a policy; expected a ...ForCausalLM");
  if (static_cast<std::int64_t>(tokenizer.vocab_size()) > config.vocab_size)
    throw format_error(folder.string() + ": the tokenizer has " + std::to_string(tokenizer.vocab_size()) +
                       " tokens, the model only " + std::to_string(config.vocab_size));
  checkpoint::check_image_tokens(folder, config, tokenizer);
  if (config.max_position_embeddings < s.max_prompt_length + s.max_response_length)
    throw config_error("data.max_prompt_length + data.max_response_length = " +
                       std::to_string(s.max_prompt_length + s.max_response_length) + " is more than the model's " +
                       std::to_string(config.max_position_embeddings) + " positions (max_position_embeddings)");
  return config;
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE data::prompt_dataset open_prompts(const std::vector<std::string>& files, const policy_settings& s,
                                                const text::tokenizer& tokenizer, const text::chat_template& chat,
                                                const reward_source& rewards, const char* name, bool quiet,
                                                std::int64_t most, const data::image_settings& images,
                                                const policy_tools* tools) {
  std::vector<data::table> tables;
  for (const std::string& file : files) {
    tables.push_back(data::read_table(checkpoint::expand_home(file)));
    auto& rows = tables.back().rows;
    if (most > 0 && std::ssize(rows) >= most) {
      rows.resize(static_cast<std::size_t>(most));
      break;
    }
    if (most > 0) most -= std::ssize(rows);
  }
  const data::prompt_settings settings{.prompt_key = s.prompt_key,
                                       .source_key = s.source_key,
                                       .max_prompt_length = static_cast<std::size_t>(s.max_prompt_length),
                                       .filter_overlong_prompts = s.filter_overlong_prompts,
                                       .truncation = data::parse_truncation(s.truncation),
                                       .label_key = s.label_key,
                                       .default_source = s.default_source,
                                       .needs_truth = rewards.reads_truth(),
                                       .images = images};
  data::prompt_dataset prompts = data::make_prompts(
      tables, settings,
      [&](const data::prompt& p, std::vector<text::dropped_part>& dropped) {
        return tokenizer.encode(data::prompt_text(chat, p.messages, s.enable_thinking, dropped,
                                                  tools != nullptr ? tools->schemas_of(p) : json_list()));
      },
      [&](const std::string& source) { rewards.check(source); });
  if (quiet) return prompts;
  say("%-6s %zu %s", name, prompts.size(), prompts.size() == 1 ? "prompt" : "prompts");
  if (prompts.size() != prompts.rows_read) say(" (%zu longer ones left out)", prompts.rows_read - prompts.size());
  say(" from %s%s\n", files.front().c_str(), image_text(prompts.images).c_str());
  for (const std::string& note : prompts.notes.sentences()) say("note: %s\n", note.c_str());
  return prompts;
}

RLCORE_INLINE std::string data_text(const data::prompt_dataset& prompts) {
  fingerprint hash;
  for (const data::prompt& p : prompts.prompts) {
    hash.add(p.ids);
    for (const data::image_pointer& i : p.images) hash.add(i->hash.low), hash.add(i->hash.high);
    hash.add(p.data_source);
    hash.add(p.ground_truth);
  }
  return std::to_string(prompts.size()) + " prompts, fingerprint " + hash.text();
}

RLCORE_INLINE std::size_t count_copies(const data::prompt_dataset& prompts) {
  std::vector<const data::prompt*> order;
  for (const data::prompt& p : prompts.prompts) order.push_back(&p);
  const auto less = [](const data::prompt* a, const data::prompt* b) {
    return a->ids != b->ids ? a->ids < b->ids : data::image_hashes(*a) < data::image_hashes(*b);
  };
  std::sort(order.begin(), order.end(), less);
  std::size_t copies = 0;
  for (std::size_t i = 1; i < order.size(); ++i) copies += !less(order[i - 1], order[i]);
  return copies;
}

}  // namespace train
RLCORE_END
#endif
