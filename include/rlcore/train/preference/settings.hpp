// Converts OpenRLHF's flags to settings of the supervised loop and the trained model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "rlcore/config/checks/preference_checks.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/offload_options.hpp"
#include "rlcore/optim/schedule.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/run/open_log.hpp"
#include "rlcore/train/supervised/plan.hpp"

RLCORE_BEGIN
namespace train {

/// --lr_scheduler, in the words of transformers; the floor is a tenth where the name says so.
optim::schedule named_schedule(const std::string& name);

/// OpenRLHF's flags for the order of rows, the optimizer, evaluations and checkpoints.
supervised_settings read_openrlhf_run(const options& opt);

/// OpenRLHF's flags for the model, Adam and LoRA; weight decay is for matrices alone.
training_settings read_openrlhf_training(const options& opt);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE optim::schedule named_schedule(const std::string& name) {
  optim::schedule s;
  if (name.starts_with("cosine")) s.kind = optim::schedule_kind::cosine;
  if (name == "cosine_with_min_lr") s.min_lr_ratio = 0.1;
  if (name == "linear") s.kind = optim::schedule_kind::linear;
  return s;
}

RLCORE_INLINE supervised_settings read_openrlhf_run(const options& opt) {
  supervised_settings s;
  s.at_epoch_end = epoch_end::run_on;
  s.name = opt.get<std::string>("wandb_project") + "/" + opt.get<std::string>("wandb_run_name");
  s.rows_per_step = opt.get<std::int64_t>("train_batch_size");
  s.rows_per_pass = opt.get<std::int64_t>("micro_train_batch_size");
  s.epochs = opt.get<std::int64_t>("max_epochs");
  s.shuffle = opt.get<bool>("rlcore.shuffle");
  s.seed = static_cast<std::uint64_t>(opt.get<std::int64_t>("seed"));
  s.lr = opt.get<double>("learning_rate");
  s.grad_clip = opt.get<double>("max_norm");
  const bool chosen = opt.known().find("lr_scheduler") != nullptr;
  const std::string schedule = chosen ? opt.get<std::string>("lr_scheduler") : "cosine_with_min_lr";
  s.schedule = named_schedule(schedule);
  s.warmup_round_up = schedule == "constant" ? 0 : opt.get<double>("lr_warmup_ratio");
  s.root = opt.get<std::string>("ckpt_path");
  s.resume_mode = opt.get<bool>("load_checkpoint") ? "auto" : "disable";
  s.loggers = opt.list("rlcore.logger");
  if (opt.find<std::string>("use_wandb")) s.loggers.push_back("wandb");
  s.console = console_style_of(opt);
  if (const auto events = opt.find<std::string>("use_tensorboard"); events && !events->empty())
    s.tensorboard_dir = *events + "/" + opt.get<std::string>("wandb_run_name");
  s.save_freq = opt.get<std::int64_t>("save_steps");
  s.test_freq = opt.get<std::int64_t>("eval_steps");
  s.test_each_epoch = s.test_freq <= 0;
  s.test_before = opt.get<bool>("rlcore.eval_before_train");
  s.keep = opt.get<std::int64_t>("max_ckpt_num");
  s.style = metric_style::openrlhf;
  s.report = opt.get<bool>("rlcore.report");
  return s;
}

RLCORE_INLINE training_settings read_openrlhf_training(const options& opt) {
  training_settings s;
  const auto [beta1, beta2] = adam_betas(opt);
  s.adamw = {.beta1 = beta1,
             .beta2 = beta2,
             .eps = 1e-8,
             .weight_decay = opt.get<double>("l2"),
             .moments = read_moment_place(opt)};
  s.decay_norms_and_biases = false;
  s.save_whole = true;
  s.logits_bytes = static_cast<std::size_t>(opt.get<std::int64_t>("rlcore.logits_memory_mb")) << 20;
  s.recompute = opt.get<bool>("gradient_checkpointing");
  s.router_aux_loss = opt.get<double>("aux_loss_coef");
  s.seed = static_cast<std::uint64_t>(opt.get<std::int64_t>("seed"));
  if (const std::int64_t rank = opt.get<std::int64_t>("lora_rank"); rank > 0) {
    s.lora = nn::lora_settings{rank, static_cast<double>(opt.get<std::int64_t>("lora_alpha")),
                               opt.list("target_modules"), s.seed};
    s.base_name = opt.get<std::string>("pretrain");
  }
  return s;
}

}  // namespace train
RLCORE_END
#endif
