// What a policy run reads before there is a model: tokenizer, prompts, rewards, and the plan of its batches.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/resolve_model.hpp"
#include "rlcore/config/settings/batch_plan.hpp"
#include "rlcore/config/settings/chat_template_setting.hpp"
#include "rlcore/trainer/policy/check_memory.hpp"
#include "rlcore/trainer/policy/prompts.hpp"
#include "rlcore/trainer/policy/reward/open_rewards.hpp"
#include "rlcore/training/files/data_files.hpp"
#include "rlcore/training/ranks/team.hpp"

RLCORE_BEGIN
namespace trainer {

/// Opened and checked by open_policy_inputs(). Nothing here depends on the algorithm.
struct policy_inputs {
  policy_settings settings;
  std::filesystem::path model_folder;
  nn::config config;  ///< of the policy
  text::tokenizer tokenizer;
  std::vector<std::int32_t> eos_ids;  ///< a response ends at any of them
  opened_rewards rewards;
  data::prompt_dataset train, val;
  batch_plan plan;

  bool has_validation() const noexcept { return !settings.val_files.empty(); }
};

namespace detail {

/// Throws config_error unless the command line names a model and data that can be read.
inline void check_policy_files(const options& opt, const policy_settings& s) {
  if (s.model_path == "~/models/deepseek-llm-7b-chat")  // verl's default, which nobody means
    throw config_error(
        "actor_rollout_ref.model.path is not given; expected a model folder or id (--help lists all keys)");
  if (s.train_files.empty()) throw config_error("data.train_files is empty; expected a file with training rows");
  if (s.val_files.empty() && s.val_only)
    throw config_error("trainer.val_only=True: data.val_files is empty; expected a file with validation rows");
  check_data_files(opt, "data.train_files", data::check_table, "prompt_data");
  check_data_files(opt, "data.val_files", data::check_table, "eval_dataset");
}

/// The config of the policy in `folder`. Throws format_error for a score model, and for fewer tokens than the tokenizer
/// has; config_error for too few positions.
inline nn::config policy_config(const std::filesystem::path& folder, const policy_settings& s,
                                const text::tokenizer& tokenizer) {
  nn::config config = checkpoint::read_config(folder);
  if (config.output != nn::model_output::logits)
    throw format_error((folder / "config.json").string() +
                       ": a score model cannot be a policy; expected a ...ForCausalLM");
  if (static_cast<std::int64_t>(tokenizer.vocab_size()) > config.vocab_size)
    throw format_error(folder.string() + ": the tokenizer has " + std::to_string(tokenizer.vocab_size()) +
                       " tokens, the model only " + std::to_string(config.vocab_size));
  if (config.max_position_embeddings < s.max_prompt_length + s.max_response_length)
    throw config_error("data.max_prompt_length + data.max_response_length = " +
                       std::to_string(s.max_prompt_length + s.max_response_length) + " is more than the model's " +
                       std::to_string(config.max_position_embeddings) + " positions (max_position_embeddings)");
  return config;
}

/// The tokens that end a response: config.json's, or else the tokenizer's. Throws format_error if there is none.
inline std::vector<std::int32_t> end_tokens(const std::filesystem::path& folder, const nn::config& config,
                                            const text::tokenizer& tokenizer) {
  std::vector<std::int32_t> eos = config.eos_token_ids;
  if (eos.empty() && tokenizer.eos_id()) eos.push_back(*tokenizer.eos_id());
  if (eos.empty()) throw format_error(folder.string() + ": neither config.json nor the tokenizer names an EOS token");
  return eos;
}

}  // namespace detail

/// Opens everything, says what it found, and plans the batches. `custom_rewards` replaces the rewards that `opt` names.
/// Throws rlcore::error for everything that can be known now.
template <class Device>
policy_inputs open_policy_inputs(Device& device, const options& opt, const team& ranks,
                                 reward_source* custom_rewards = nullptr) {
  policy_settings s = read_settings(opt);
  for (const std::string& note : opt.notes()) say("note: %s\n", note.c_str());
  detail::check_policy_files(opt, s);
  const std::filesystem::path folder = checkpoint::resolve_model(s.model_path);
  text::tokenizer tokenizer = text::tokenizer::load(folder);
  const auto chat = text::chat_template::chosen(chat_template_setting(opt), folder, "rlcore.chat_template");
  nn::config config = detail::policy_config(folder, s, tokenizer);
  std::vector<std::int32_t> eos = detail::end_tokens(folder, config, tokenizer);

  opened_rewards rewards(device, s.reward, folder, s.logits_bytes, custom_rewards);
  data::prompt_dataset train = open_prompts(s.train_files, s, tokenizer, chat, *rewards, "train", false, s.train_rows);
  data::prompt_dataset val;
  if (!s.val_files.empty())
    val = open_prompts(s.val_files, s, tokenizer, chat, *rewards, "val", false, s.val_rows);
  else
    say("val    none: data.val_files is empty%s, so that nothing is validated\n",
        opt.known().find("eval_dataset") != nullptr ? " and --eval_dataset not given" : "");
  if (const std::size_t copies = count_copies(train); copies > 0)
    say("note: %zu of %zu training prompts are copies of earlier ones\n", copies, train.size());
  batch_plan plan = make_batch_plan(opt, std::ssize(train.prompts), ranks.size());
  check_memory(plan, s, train, val, ranks);
  s.schedule.total_steps = plan.scheduled_steps;
  s.schedule.warmup_steps = plan.warmup_steps;
  s.root = checkpoint::expand_home(s.root).string();
  s.rollout_dir = checkpoint::expand_home(s.rollout_dir).string();
  return {std::move(s),       folder,           std::move(config), std::move(tokenizer), std::move(eos),
          std::move(rewards), std::move(train), std::move(val),    std::move(plan)};
}

}  // namespace trainer
RLCORE_END
