// Maps the flags of OpenRLHF's train_ppo_ray to the keys of the policy trainers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "rlcore/config/keys/openrlhf/openrlhf_ppo_keys.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace trainer {
namespace detail {

inline bool any_openrlhf_flag(const options& opt) {
  for (const key& k : keys::openrlhf_ppo)
    if (opt.is_set(k.name)) return true;
  for (const key& k : keys::openrlhf_machine)
    if (opt.is_set(k.name)) return true;
  return false;
}

/// Maps the scoring of responses and the critic's initial weights.
template <class Set>
void map_openrlhf_models(options& opt, Set&& set) {
  const auto text = [&](const char* name) { return opt.find<std::string>(name); };
  if (const auto path = text("pretrain")) set("actor_rollout_ref.model.path", value(*path));
  const auto reward = text("reward_pretrain"), remote = text("remote_rm_url");
  if (remote) {
    if (remote->starts_with("http") || remote->ends_with(".py"))
      throw config_error("--remote_rm_url " + *remote +
                         ": expected a program that answers JSON lines (docs/rewards.md); HTTP is not asked and "
                         "reward_func of a Python file has other arguments than custom_reward_function.path");
    set("custom_reward_function.path", value(*remote));
  } else if (reward) {
    if (reward->find(',') != reward->npos)
      throw config_error("--reward_pretrain " + *reward + ": expected one reward model");
    set("reward_model.enable", value(true));
    set("reward_model.model.path", value(*reward));
    set("rlcore.normalize_reward", opt.at("normalize_reward"));
  }
  if (opt.get<bool>("normalize_reward"))
    opt.note(reward && !remote ? "--normalize_reward: of the reward model's scores; the critic's values are their own"
                               : "--normalize_reward: no effect without a reward model (--reward_pretrain)");
  for (const std::string model : {"actor_rollout_ref.model.", "critic.model."}) {
    set(model + "lora_rank", opt.at("lora_rank"));
    set(model + "lora_alpha", opt.at("lora_alpha"));
    set(model + "target_modules", opt.at("target_modules"));
  }
  if (const auto critic = text("critic_pretrain"))
    set("critic.model.path", value(*critic));
  else if (reward && !remote)
    set("critic.model.path", value(*reward));
}

template <class Set>
void map_openrlhf_data(options& opt, Set&& set) {
  if (!opt.get<bool>("apply_chat_template"))
    throw config_error("--apply_chat_template is missing: prompts go through the model's chat template here, always");
  const auto files = [&](const char* name) {
    value::list paths;
    for (const std::string& text : opt.list(name))
      for (std::size_t at = 0; at <= text.size();) {
        const std::size_t comma = std::min(text.find(',', at), text.size());
        paths.emplace_back(text.substr(at, comma - at));
        at = comma + 1;
      }
    return value(std::move(paths));
  };
  if (!opt.at("prompt_data").is_null()) set("data.train_files", files("prompt_data"));
  const bool given = !opt.at("eval_dataset").is_null();
  set("data.val_files", given ? files("eval_dataset") : value(value::list{}));
  set("data.train_max_samples", opt.at("max_samples"));
  set("data.val_max_samples", opt.at("max_samples"));
  set("data.prompt_key", opt.at("input_key"));
  if (!opt.at("label_key").is_null()) set("rlcore.label_key", opt.at("label_key"));
  set("data.max_prompt_length", opt.at("prompt_max_len"));
  set("data.max_response_length", opt.at("generate_max_len"));
  set("data.truncation", value("right"));
  if (opt.is_set("eval_steps") && !given && !opt.is_set("data.val_files"))
    opt.note("--eval_steps without --eval_dataset: nothing is validated");
  set("trainer.test_freq", opt.at("eval_steps"));
  set("trainer.val_before_train", value(false));
  const std::string val = "actor_rollout_ref.rollout.val_kwargs.";
  set(val + "n", opt.at("eval_n_samples_per_prompt"));
  set(val + "do_sample", value(opt.get<double>("eval_temperature") > 0));
  set(val + "temperature", opt.at("eval_temperature"));
  set(val + "top_p", opt.at("top_p"));
}

template <class Set>
void map_openrlhf_batches(options& opt, Set&& set) {
  const std::int64_t prompts = opt.get<std::int64_t>("rollout_batch_size"),
                     samples = opt.get<std::int64_t>("n_samples_per_prompt"),
                     update = opt.get<std::int64_t>("train_batch_size");
  const std::string estimator = opt.get<std::string>("advantage_estimator");
  if (samples == 1 && estimator != "gae" && estimator != "reinforce")
    throw config_error("--n_samples_per_prompt 1: expected 2 or more with --advantage_estimator " + estimator);
  if (update % samples != 0)
    throw config_error("--train_batch_size " + std::to_string(update) +
                       ": expected a multiple of --n_samples_per_prompt " + std::to_string(samples) +
                       ", since an update holds whole groups here");
  set("data.train_batch_size", value(prompts));
  set("data.gen_batch_size", value(prompts));
  set("actor_rollout_ref.rollout.n", value(samples));
  for (const std::string model : {"actor_rollout_ref.actor.", "critic."}) {
    set(model + "ppo_mini_batch_size", value(update / samples));
    set(model + "ppo_micro_batch_size_per_gpu", opt.at("micro_train_batch_size"));
    set(model + "ppo_epochs", opt.at("max_epochs"));
    set(model + "grad_clip", opt.at("max_norm"));
    set(model + "optim.weight_decay", opt.at("l2"));
    set(model + "optim.betas", opt.at("adam_betas"));
    set(model + "optim.warmup_style", value("cosine_with_min_lr"));
    set(model + "optim.min_lr_ratio", value(0.1));
    set(model + "optim.lr_warmup_steps_ratio", opt.at("lr_warmup_ratio"));
  }
  set("rlcore.decay_norms_and_biases", value(false));
  set("rlcore.round_warmup_up", value(true));
  set("rlcore.lr_per_update", value(true));
  set("actor_rollout_ref.actor.optim.lr", opt.at("actor_learning_rate"));
  set("critic.optim.lr", opt.at("critic_learning_rate"));
  set("actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu", opt.at("micro_rollout_batch_size"));
  set("critic.forward_micro_batch_size_per_gpu", opt.at("micro_rollout_batch_size"));
  set("actor_rollout_ref.model.enable_gradient_checkpointing", opt.at("gradient_checkpointing"));
  set("critic.model.enable_gradient_checkpointing", opt.at("gradient_checkpointing"));
}

template <class Set>
void map_openrlhf_objective(options& opt, Set&& set) {
  const std::string estimator = opt.get<std::string>("advantage_estimator"), actor = "actor_rollout_ref.actor.";
  constexpr std::pair<const char*, const char*> names[] = {
      {"gae", "gae"},         {"reinforce", "reinforce_plus_plus"},
      {"rloo", "rloo"},       {"reinforce_baseline", "reinforce_plus_plus_baseline"},
      {"group_norm", "grpo"}, {"dr_grpo", "grpo"}};
  for (const auto& [theirs, ours] : names)
    if (estimator == theirs) set("algorithm.adv_estimator", value(ours));
  set("algorithm.norm_adv_by_std_in_grpo", value(estimator != "dr_grpo"));
  set("rlcore.advantages", value("openrlhf"));
  set("rlcore.reward_clip_range", opt.at("reward_clip_range"));
  set("rlcore.scale_advantages", value(!opt.get<bool>("no_advantage_std_norm")));
  set("algorithm.gamma", opt.at("gamma"));
  set("algorithm.lam", opt.at("lambd"));
  set(actor + "clip_ratio_low", opt.at("eps_clip"));
  set(actor + "clip_ratio_high", opt.at("eps_clip"));
  set(actor + "clip_ratio_c", value(std::numeric_limits<double>::infinity()));
  set(actor + "entropy_coeff", opt.at("entropy_loss_coef"));
  set(actor + "loss_agg_mode", value("token-mean"));
  set("critic.loss_agg_mode", value("token-mean"));
  set("critic.cliprange_value", opt.at("value_clip"));

  const bool in_loss = opt.get<bool>("use_kl_loss"), pays = opt.get<double>("init_kl_coef") > 0;
  set(actor + "use_kl_loss", value(in_loss && pays));
  set(actor + "kl_loss_coef", opt.at("init_kl_coef"));
  set(actor + "kl_loss_type", opt.at("kl_estimator"));
  set("algorithm.use_kl_in_reward", value(!in_loss && pays));
  set("algorithm.kl_penalty", opt.at("kl_estimator"));
  set("algorithm.kl_ctrl.kl_coef", opt.at("init_kl_coef"));
  if (!opt.at("kl_target").is_null()) {
    set("algorithm.kl_ctrl.type", value("adaptive"));
    set("algorithm.kl_ctrl.target_kl", opt.at("kl_target"));
    set("algorithm.kl_ctrl.horizon", opt.at("kl_horizon"));
  }
  set("actor_rollout_ref.rollout.temperature", opt.at("temperature"));
  set("actor_rollout_ref.rollout.top_p", opt.at("top_p"));
}

template <class Set>
void map_openrlhf_run(options& opt, Set&& set) {
  set("trainer.total_epochs", opt.at("num_episodes"));
  const std::int64_t frozen = opt.get<std::int64_t>("freezing_actor_steps"), save = opt.get<std::int64_t>("save_steps");
  set("trainer.critic_warmup", value(frozen < 0 ? std::int64_t{0} : frozen + 1));
  set("trainer.save_freq", value(save > 0 ? save : std::numeric_limits<std::int64_t>::max()));  // the last step always
  set("trainer.default_local_dir", opt.at("ckpt_path"));
  set("rlcore.export_path", opt.at("save_path"));
  set("trainer.resume_mode", value(opt.get<bool>("load_checkpoint") ? "auto" : "disable"));
  set("trainer.max_actor_ckpt_to_keep", opt.at("max_ckpt_num"));
  set("trainer.project_name", value("openrlhf"));
  set("trainer.experiment_name", opt.at("advantage_estimator"));
  set("rlcore.seed", opt.at("seed"));
  set("rlcore.zero_stage", opt.at("zero_stage"));
  set("rlcore.tensor_parallel_size", opt.at("ds_tensor_parallel_size"));
  set("rlcore.context_parallel_size", opt.at("ring_attn_size"));
  set("rlcore.context_kind", value("gather_kv"));
  if (!opt.at("use_wandb").is_null()) opt.note("--use_wandb is not in this build: metrics go to trainer.logger");
}

}  // namespace detail

/// If the command line has a flag of OpenRLHF, sets every key that OpenRLHF's flags and their defaults stand for. Keys
/// written as key=value stay. Throws config_error for settings that one process or this build does not support.
inline void apply_openrlhf_flags(options& opt) {
  if (opt.known().find("advantage_estimator") == nullptr || !detail::any_openrlhf_flag(opt)) return;
  const auto set = [&opt](const std::string& name, const value& v) {
    if (!opt.is_set(name)) opt.set(name, v);
  };
  detail::map_openrlhf_models(opt, set);
  detail::map_openrlhf_data(opt, set);
  detail::map_openrlhf_batches(opt, set);
  detail::map_openrlhf_objective(opt, set);
  detail::map_openrlhf_run(opt, set);
}

}  // namespace trainer
RLCORE_END
