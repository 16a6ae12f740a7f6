// Inputs of a policy run: tokenizer, prompts, rewards, and the batch plan.
#pragma once

#include <fmt/format.h>

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
#include "rlcore/data/open_blend.hpp"
#include "rlcore/train/files/export_model.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "rlcore/train/files/named_files.hpp"
#include "rlcore/train/model/images.hpp"
#include "rlcore/train/policy/check_memory.hpp"
#include "rlcore/train/policy/open.hpp"
#include "rlcore/train/policy/prompts.hpp"
#include "rlcore/train/policy/reward/open_rewards.hpp"
#include "rlcore/train/policy/tools.hpp"
#include "rlcore/train/ranks/team.hpp"

RLCORE_BEGIN
namespace train {

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

  opened_rewards rewards(device, s.reward, folder, s.logits_bytes, custom_rewards);
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
RLCORE_END
#endif
