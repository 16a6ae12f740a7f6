// The settings of sft_trainer, read once from the command line and checked before any file is opened.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/config/check_value.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/programs/sft.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/data/sft_rows.hpp"
#include "rlcore/nn/lora/lora_settings.hpp"
#include "rlcore/optim/schedule.hpp"
#include "rlcore/trainer/supervised/settings.hpp"
#include "rlcore/training/open_log.hpp"
#include "rlcore/training/trainable_model.hpp"

RLCORE_BEGIN
namespace trainer {

/// All settings of sft_trainer.
struct sft_run_settings {
  supervised_settings run;
  training_settings training;
  data::sft_settings rows;
  std::size_t max_eval_rows = 0;  ///< 0: all
  std::vector<std::string> train_files, val_files;
  std::string model_path;
  bool dft = false;
  std::int64_t show_mask = 0;
};

/// Two numbers in [0, 1) as AdamW's betas.
void read_betas(const options& opt, const char* name, optim::adamw_settings& adamw);

/// A schedule by its name in verl or transformers; the floor is a tenth where the name says so.
optim::schedule sft_schedule(const std::string& name);

/// Reads verl's keys. Throws config_error.
sft_run_settings read_sft_settings(const options& opt);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINER)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE void read_betas(const options& opt, const char* name, optim::adamw_settings& adamw) {
  const auto* items = opt.at(name).as<value::list>();
  std::vector<double> betas;
  if (items != nullptr)
    for (const value& item : *items) {
      if (const auto* real = item.as<double>()) betas.push_back(*real);
      if (const auto* whole = item.as<std::int64_t>()) betas.push_back(static_cast<double>(*whole));
    }
  if (betas.size() != 2 || items->size() != 2 || !(betas[0] >= 0 && betas[0] < 1 && betas[1] >= 0 && betas[1] < 1))
    throw config_error(std::string(name) + "=" + inline_text(opt.at(name)) +
                       ": expected two numbers from 0 to less than 1, such as [0.9,0.95]");
  adamw.beta1 = betas[0], adamw.beta2 = betas[1];
}

RLCORE_INLINE optim::schedule sft_schedule(const std::string& name) {
  using enum optim::schedule_kind;
  optim::schedule s;
  s.kind = name == "cosine" ? cosine : name == "wsd" ? wsd : name == "linear" ? linear : constant;
  if (name == "cosine_with_min_lr") s.kind = cosine_with_min_lr, s.min_lr_ratio = 0.1;
  return s;
}

RLCORE_INLINE sft_run_settings read_sft_settings(const options& opt) {
  const auto count = [&](const char* name) {
    return static_cast<std::size_t>(std::max<std::int64_t>(0, opt.get<std::int64_t>(name)));
  };
  sft_run_settings s;
  s.train_files = opt.list("data.train_files"), s.val_files = opt.list("data.val_files");
  s.model_path = opt.get<std::string>("model.partial_pretrain");
  s.dft = opt.get<std::string>("rlcore.sft_loss") == "dft";
  s.show_mask = opt.get<std::int64_t>("rlcore.show_mask");

  data::sft_settings& rows = s.rows;
  rows.layout = opt.get<bool>("data.multiturn.enable") ? data::sft_layout::conversation : data::sft_layout::question;
  rows.prompt_key = opt.get<std::string>("data.prompt_key");
  rows.response_key = opt.get<std::string>("data.response_key");
  rows.prompt_path = opt.list("data.prompt_dict_keys"), rows.response_path = opt.list("data.response_dict_keys");
  rows.messages_key = opt.get<std::string>("data.multiturn.messages_key");
  rows.tools_key = opt.get<std::string>("data.multiturn.tools_key");
  rows.thinking_key = opt.get<std::string>("data.multiturn.enable_thinking_key");
  rows.enable_thinking = opt.find<bool>("data.apply_chat_template_kwargs.enable_thinking");
  rows.max_length = count("data.max_length");
  rows.truncation = data::parse_truncation(opt.get<std::string>("data.truncation"));
  rows.max_rows = count("data.train_max_samples"), s.max_eval_rows = count("data.val_max_samples");

  s.training.adamw.weight_decay = opt.get<double>("optim.weight_decay");
  read_betas(opt, "optim.betas", s.training.adamw);
  s.training.logits_bytes = static_cast<std::size_t>(opt.get<std::int64_t>("rlcore.logits_memory_mb")) << 20;
  s.training.recompute = opt.get<bool>("model.enable_gradient_checkpointing");
  const std::vector<std::string> contents = opt.list("trainer.checkpoint.save_contents");
  s.training.save_whole = !opt.is_set("trainer.checkpoint.save_contents") ||
                          std::find(contents.begin(), contents.end(), "hf_model") != contents.end();

  supervised_settings& run = s.run;
  run.name = opt.get<std::string>("trainer.project_name") + "/" + opt.get<std::string>("trainer.experiment_name");
  run.rows_per_step = opt.get<std::int64_t>("data.train_batch_size");
  run.rows_per_pass = opt.get<std::int64_t>("data.micro_batch_size_per_gpu");
  run.epochs = opt.get<std::int64_t>("trainer.total_epochs");
  run.total_steps = opt.find<std::int64_t>("trainer.total_training_steps").value_or(-1);
  run.shuffle = opt.get<bool>("data.shuffle");
  run.seed = s.training.seed = static_cast<std::uint64_t>(opt.get<std::int64_t>("trainer.seed"));
  s.training.base_name = s.model_path;
  if (const auto rank = opt.get<std::int64_t>("model.lora_rank"); rank > 0)
    s.training.lora = {rank, opt.get<double>("model.lora_alpha"), opt.list("model.target_modules"), run.seed};
  run.lr = opt.get<double>("optim.lr"), run.grad_clip = opt.get<double>("optim.clip_grad");
  run.schedule = sft_schedule(opt.get<std::string>("optim.lr_scheduler"));
  if (const auto floor = opt.find<double>("optim.min_lr_ratio")) run.schedule.min_lr_ratio = *floor;
  run.schedule.warmup_ratio =
      opt.find<double>("optim.lr_warmup_steps_ratio").value_or(opt.get<double>("optim.warmup_steps_ratio"));
  run.root = opt.get<std::string>("trainer.default_local_dir");
  run.resume_mode = opt.get<std::string>("trainer.resume_mode");
  run.resume_path = opt.find<std::string>("trainer.resume_from_path").value_or("");
  if (run.resume_mode == "auto" && !run.resume_path.empty()) run.resume_mode = "resume_path";  // as verl has it
  run.loggers = opt.list("trainer.logger"), run.console = console_style_of(opt);
  run.tensorboard_dir = opt.find<std::string>("rlcore.tensorboard_dir").value_or("");
  run.save_freq = opt.get<std::int64_t>("trainer.save_freq"),
  run.test_freq = opt.get<std::int64_t>("trainer.test_freq");
  run.keep = opt.find<std::int64_t>("trainer.max_ckpt_to_keep").value_or(0);
  run.test_before = opt.get<bool>("trainer.val_before_train");
  run.report = opt.get<bool>("rlcore.report");
  return s;
}

}  // namespace trainer
RLCORE_END
#endif
