// The keys of sft_trainer: verl's fsdp_sft_trainer, or OpenRLHF's train_sft.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/config/checks/policy_checks.hpp"
#include "rlcore/config/checks/preference_checks.hpp"
#include "rlcore/config/keys/openrlhf_keys.hpp"
#include "rlcore/config/keys/rlcore_keys.hpp"
#include "rlcore/config/keys/verl/trainer_keys.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/registry.hpp"
#include "rlcore/config/settings/image_options.hpp"
#include "rlcore/config/settings/offload_options.hpp"
#include "rlcore/config/settings/rank_options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"

RLCORE_BEGIN
namespace train {

/// Throws config_error for combinations that cannot work, adds notes for those that work differently than they look.
void check_sft_options(options& opt);

/// The table of keys of sft_trainer.
registry sft_registry();

/// Throws config_error for combinations that cannot work, adds notes for those that work differently than they look.
void check_openrlhf_sft(options& opt);

/// OpenRLHF's flags, at least one of which is on the command line.
registry openrlhf_sft_registry();

registry sft_registry(int argc, const char* const* argv);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE void check_sft_options(options& opt) {
  check_device_options(opt);
  check_offload_options(opt);
  check_image_options(opt);
  detail::check_loggers(opt);
  detail::check_resumption(opt);
  if (opt.find<std::int64_t>("data.micro_batch_size"))
    opt.note("data.micro_batch_size is deprecated upstream and not read; data.micro_batch_size_per_gpu is");
  const bool turns = opt.get<bool>("data.multiturn.enable");
  for (const char* name : {"data.prompt_key", "data.response_key", "data.prompt_dict_keys", "data.response_dict_keys"})
    if (turns && opt.is_set(name)) opt.note(std::string(name) + " has no effect with data.multiturn.enable=True");
  for (const char* name :
       {"data.multiturn.messages_key", "data.multiturn.tools_key", "data.multiturn.enable_thinking_key"})
    if (!turns && opt.is_set(name)) opt.note(std::string(name) + " has no effect without data.multiturn.enable=True");
  if (opt.get<std::int64_t>("model.lora_rank") == 0)
    for (const char* name : {"model.lora_alpha", "model.target_modules"})
      if (opt.is_set(name)) opt.note(std::string(name) + " has no effect without model.lora_rank > 0");
  for (const std::string& part : opt.list("trainer.checkpoint.save_contents"))
    if (part != "model" && part != "optimizer" && part != "extra" && part != "hf_model")
      throw config_error("trainer.checkpoint.save_contents: '" + part +
                         "'; expected model, optimizer, extra, hf_model" +
                         did_you_mean(part, std::vector<std::string>{"model", "optimizer", "extra", "hf_model"}));
  const std::int64_t world = asked_ranks(opt);
  if (world == 0) return;
  const std::int64_t ranks = std::max<std::int64_t>(1, world / opt.get<std::int64_t>("ulysses_sequence_parallel_size")),
                     batch = opt.get<std::int64_t>("data.train_batch_size"),
                     micro = opt.get<std::int64_t>("data.micro_batch_size_per_gpu");
  if (batch % ranks != 0 || batch / ranks % micro != 0)
    opt.note("verl would refuse this: data.train_batch_size=" + std::to_string(batch) + " over " +
             std::to_string(ranks) + " devices does not divide into micro-batches of " + std::to_string(micro) +
             "; here ranks may differ");
}

RLCORE_INLINE registry sft_registry() {
  registry known;
  known.program = "sft_trainer";
  known.summary =
      "supervised fine-tuning of a language model on written answers (with OpenRLHF's flags: sft_trainer --pretrain "
      "DIR --help)";
  known.config_name = "sft_trainer";
  known.config_names = {"sft_trainer"};
  known.later_config_names = {"ppo_trainer", "ppo_megatron_trainer", "dapo_trainer"};
  known.topics = keys::verl_topics;
  known.check = check_sft_options;
  known.add(keys::sft_data).add(keys::sft_model).add(keys::sft_optim).add(keys::sft_run);
  known.add(keys::ranks)
      .add(keys::sharing)
      .add(keys::device)
      .add(keys::sft_own)
      .add(keys::images)
      .add(keys::image_pixels);
  return known.add_flags(keys::own_flags).add_flags(keys::show_mask);
}

RLCORE_INLINE void check_openrlhf_sft(options& opt) {
  check_preference_options(opt);
  const bool chat = opt.get<bool>("apply_chat_template"), text = opt.get<bool>("pretrain_mode");
  const bool output = !opt.find<std::string>("output_key").value_or("").empty();
  if (opt.get<bool>("multiturn") && !chat)
    throw config_error("--multiturn needs --apply_chat_template: turns are marked by the chat template");
  if (!text && !chat && !output)
    throw config_error(
        "--output_key is needed: the column with the response (for whole conversations in --input_key add "
        "--apply_chat_template, for plain texts --pretrain_mode)");
  for (const char* name : {"apply_chat_template", "multiturn", "output_key", "input_template"})
    if (text && opt.is_set(name)) opt.note("--" + std::string(name) + " has no effect with --pretrain_mode");
}

RLCORE_INLINE registry openrlhf_sft_registry() {
  registry known;
  known.program = "sft_trainer";
  known.summary = "supervised fine-tuning of a language model on written answers, with OpenRLHF's flags";
  known.topics = keys::openrlhf_topics;
  known.check = check_openrlhf_sft;
  known.add_as_flags(keys::openrlhf_data).add_as_flags(keys::openrlhf_training).add_as_flags(keys::openrlhf_run);
  known.add_as_flags(keys::openrlhf_device).add_as_flags(keys::openrlhf_sft);
  known.add(keys::ranks).add(keys::sharing).add(keys::device).add(keys::openrlhf_own);
  known.add(keys::openrlhf_sft_own).add(keys::images).add(keys::image_pixels);
  return known.add_flags(keys::openrlhf_flags).add_flags(keys::show_mask).add_flags(keys::image_flags);
}

RLCORE_INLINE registry sft_registry(int argc, const char* const* argv) {
  const registry verl = sft_registry(), openrlhf = openrlhf_sft_registry();
  const auto shared = [&](std::string_view word) {
    return std::any_of(verl.flags().begin(), verl.flags().end(), [&](const flag& f) { return f.name == word; });
  };
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    const bool dashes = word.starts_with("--");
    if (dashes) word.remove_prefix(2);
    word = word.substr(0, word.find('='));
    if (word.find('.') != word.npos || shared(word)) continue;
    const bool asked =
        std::string_view(argv[i - 1]) == "--help" && verl.find(word) == nullptr && !verl.is_section(word);
    for (const key& k : openrlhf.keys())
      if (k.name == word && (dashes || asked || std::string_view(argv[i]).find('=') != std::string_view::npos))
        return openrlhf;
  }
  return verl;
}

}  // namespace train
RLCORE_END
#endif
