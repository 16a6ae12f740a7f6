// Maps the flags of OpenRLHF's train_ppo_ray to the keys of the policy trainers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "rlcore/config/keys/openrlhf_keys.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace train {

namespace detail {

bool any_openrlhf_flag(const options& opt);

/// Sets keys that the command line does not set as key=value, and remembers the flags that set them.
struct openrlhf_mapping {
  options& opt;

  /// Copies the value of `flag` to `key` if the flag is given.
  void copy(const std::string& key, const char* flag) {
    if (opt.is_set(key)) return;
    if (!opt.at(flag).is_null()) opt.set(key, opt.at(flag));
    opt.show_as(key, flag);
  }
  /// Sets `key` to `value`, derived from `flag`, or fixed without a flag.
  void set(const std::string& key, const value& v, const char* flag = nullptr) {
    if (opt.is_set(key)) return;
    opt.set(key, v);
    if (flag != nullptr) opt.show_as(key, flag);
  }
};

/// Maps the scoring of responses and the critic's initial weights.
void map_openrlhf_models(openrlhf_mapping& map);

void map_openrlhf_data(openrlhf_mapping& map);

void map_openrlhf_batches(openrlhf_mapping& map);

void map_openrlhf_objective(openrlhf_mapping& map);

/// The prompts of `queue` steps are in play beside those of a step.
void map_partial_rollout(openrlhf_mapping& map, std::int64_t queue);

void map_openrlhf_run(openrlhf_mapping& map);

}  // namespace detail

/// If the command line has a flag of OpenRLHF, sets every key that OpenRLHF's flags and their defaults map to. Keys
/// written as key=value stay. Throws config_error for settings that one process or this build does not support.
void apply_openrlhf_flags(options& opt);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train::detail {

RLCORE_INLINE bool any_openrlhf_flag(const options& opt) {
  for (const key& k : keys::openrlhf_ppo)
    if (opt.is_set(k.name)) return true;
  for (const key& k : keys::openrlhf_machine)
    if (opt.is_set(k.name)) return true;
  return false;
}

RLCORE_INLINE void map_openrlhf_models(openrlhf_mapping& map) {
  options& opt = map.opt;
  const auto text = [&](const char* name) { return opt.find<std::string>(name); };
  map.copy("actor_rollout_ref.model.path", "pretrain");
  const auto reward = text("reward_pretrain"), remote = text("remote_rm_url"), agent = text("agent_func_path");
  if (agent && (remote || reward))
    throw config_error("--agent_func_path " + *agent + ": the agent gives the rewards; leave out " +
                       (remote ? "--remote_rm_url" : "--reward_pretrain"));
  map.copy("rlcore.agent_func_path", "agent_func_path");
  if (remote) {
    if (remote->starts_with("http") || remote->ends_with(".py"))
      throw config_error("--remote_rm_url " + *remote +
                         ": expected a program that answers JSON lines (docs/rewards.md); HTTP is not asked and "
                         "reward_func of a Python file has other arguments than custom_reward_function.path");
    map.set("rlcore.data_source", value("unknown"));  // for rows without one: OpenRLHF sends only labels
  } else if (reward) {
    if (reward->find(',') != reward->npos)
      throw config_error("--reward_pretrain " + *reward + ": expected one reward model");
    map.set("reward_model.enable", value(true));
    map.copy("rlcore.normalize_reward", "normalize_reward");
  }
  map.copy("custom_reward_function.path", "remote_rm_url");
  map.copy("reward_model.model.path", "reward_pretrain");
  if (!opt.is_set("reward_model.enable"))
    opt.show_as("reward_model.enable", "reward_pretrain", "True", "--reward_pretrain FOLDER");
  if (opt.get<bool>("normalize_reward"))
    opt.note(reward && !remote ? "--normalize_reward: of the reward model's scores; the critic's values are their own"
                               : "--normalize_reward: no effect without a reward model (--reward_pretrain)");
  for (const std::string model : {"actor_rollout_ref.model.", "critic.model."}) {
    map.copy(model + "lora_rank", "lora_rank");
    map.copy(model + "lora_alpha", "lora_alpha");
    map.copy(model + "target_modules", "target_modules");
  }
  if (text("critic_pretrain"))
    map.copy("critic.model.path", "critic_pretrain");
  else if (reward && !remote)
    map.copy("critic.model.path", "reward_pretrain");
}

RLCORE_INLINE void map_openrlhf_data(openrlhf_mapping& map) {
  options& opt = map.opt;
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
  if (!opt.at("prompt_data").is_null()) map.set("data.train_files", files("prompt_data"), "prompt_data");
  const bool given = !opt.at("eval_dataset").is_null();
  map.set("data.val_files", given ? files("eval_dataset") : value(value::list{}), "eval_dataset");
  map.copy("data.train_max_samples", "max_samples");
  map.copy("data.val_max_samples", "max_samples");
  map.copy("data.prompt_key", "input_key");
  map.copy("rlcore.label_key", "label_key");
  map.copy("data.image_key", "image_key");
  map.copy("actor_rollout_ref.actor.freeze_vision_tower", "freeze_visual_encoder");
  map.copy("data.max_prompt_length", "prompt_max_len");
  map.copy("data.max_response_length", "generate_max_len");
  map.set("data.truncation", value("right"));
  if (opt.is_set("eval_steps") && !given && !opt.is_set("data.val_files"))
    opt.note("--eval_steps without --eval_dataset: nothing is validated");
  map.copy("trainer.test_freq", "eval_steps");
  map.set("trainer.val_before_train", value(false));
  const std::string val = "actor_rollout_ref.rollout.val_kwargs.";
  map.copy(val + "n", "eval_n_samples_per_prompt");
  map.set(val + "do_sample", value(opt.get<double>("eval_temperature") > 0), "eval_temperature");
  map.copy(val + "temperature", "eval_temperature");
  map.copy(val + "top_p", "top_p");
}

RLCORE_INLINE void map_openrlhf_batches(openrlhf_mapping& map) {
  options& opt = map.opt;
  const std::int64_t samples = opt.get<std::int64_t>("n_samples_per_prompt"),
                     update = opt.get<std::int64_t>("train_batch_size");
  const std::string estimator = opt.get<std::string>("advantage_estimator");
  if (samples == 1 && estimator != "gae" && estimator != "reinforce")
    throw config_error("--n_samples_per_prompt 1: expected 2 or more with --advantage_estimator " + estimator);
  if (update % samples != 0)
    throw config_error("--train_batch_size " + std::to_string(update) +
                       ": expected a multiple of --n_samples_per_prompt " + std::to_string(samples) +
                       ", since an update holds whole groups here");
  map.copy("data.train_batch_size", "rollout_batch_size");
  map.copy("data.gen_batch_size", "rollout_batch_size");
  map.copy("actor_rollout_ref.rollout.n", "n_samples_per_prompt");
  for (const std::string model : {"actor_rollout_ref.actor.", "critic."}) {
    map.set(model + "ppo_mini_batch_size", value(update / samples), "train_batch_size");
    map.copy(model + "ppo_micro_batch_size_per_gpu", "micro_train_batch_size");
    map.copy(model + "ppo_epochs", "max_epochs");
    map.copy(model + "grad_clip", "max_norm");
    map.copy(model + "optim.weight_decay", "l2");
    map.copy(model + "optim.betas", "adam_betas");
    map.set(model + "optim.warmup_style", value("cosine_with_min_lr"));
    map.set(model + "optim.min_lr_ratio", value(0.1));
    map.copy(model + "optim.lr_warmup_steps_ratio", "lr_warmup_ratio");
  }
  map.set("rlcore.decay_norms_and_biases", value(false));
  map.set("rlcore.round_warmup_up", value(true));
  map.set("rlcore.lr_per_update", value(true));
  map.copy("actor_rollout_ref.actor.optim.lr", "actor_learning_rate");
  map.copy("critic.optim.lr", "critic_learning_rate");
  map.copy("actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu", "micro_rollout_batch_size");
  map.copy("critic.forward_micro_batch_size_per_gpu", "micro_rollout_batch_size");
  map.copy("actor_rollout_ref.model.enable_gradient_checkpointing", "gradient_checkpointing");
  map.copy("critic.model.enable_gradient_checkpointing", "gradient_checkpointing");
  map.copy("actor_rollout_ref.actor.fsdp_config.optimizer_offload", "adam_offload");
  map.copy("critic.model.fsdp_config.optimizer_offload", "adam_offload");
}

RLCORE_INLINE void map_openrlhf_objective(openrlhf_mapping& map) {
  options& opt = map.opt;
  const std::string estimator = opt.get<std::string>("advantage_estimator"), actor = "actor_rollout_ref.actor.";
  constexpr std::pair<const char*, const char*> names[] = {
      {"gae", "gae"},         {"reinforce", "reinforce_plus_plus"},
      {"rloo", "rloo"},       {"reinforce_baseline", "reinforce_plus_plus_baseline"},
      {"group_norm", "grpo"}, {"dr_grpo", "grpo"}};
  for (const auto& [theirs, ours] : names)
    if (estimator == theirs) map.set("algorithm.adv_estimator", value(ours), "advantage_estimator");
  map.set("algorithm.norm_adv_by_std_in_grpo", value(estimator != "dr_grpo"), "advantage_estimator");
  map.set("rlcore.advantages", value("openrlhf"));
  map.copy("rlcore.reward_clip_range", "reward_clip_range");
  map.set("rlcore.scale_advantages", value(!opt.get<bool>("no_advantage_std_norm")), "no_advantage_std_norm");
  map.copy("algorithm.gamma", "gamma");
  map.copy("algorithm.lam", "lambd");
  map.copy(actor + "clip_ratio_low", "eps_clip");
  map.copy(actor + "clip_ratio_high", "eps_clip");
  map.set(actor + "clip_ratio_c", value(std::numeric_limits<double>::infinity()));
  map.copy(actor + "entropy_coeff", "entropy_loss_coef");
  map.set(actor + "loss_agg_mode", value("token-mean"));
  map.set("critic.loss_agg_mode", value("token-mean"));
  map.copy("critic.cliprange_value", "value_clip");

  const bool in_loss = opt.get<bool>("use_kl_loss"), pays = opt.get<double>("init_kl_coef") > 0;
  map.set(actor + "use_kl_loss", value(in_loss && pays), "use_kl_loss");
  map.copy(actor + "kl_loss_coef", "init_kl_coef");
  map.copy(actor + "kl_loss_type", "kl_estimator");
  map.set("algorithm.use_kl_in_reward", value(!in_loss && pays), "init_kl_coef");
  map.copy("algorithm.kl_penalty", "kl_estimator");
  map.copy("algorithm.kl_ctrl.kl_coef", "init_kl_coef");
  if (!opt.at("kl_target").is_null()) {
    map.set("algorithm.kl_ctrl.type", value("adaptive"), "kl_target");
    map.copy("algorithm.kl_ctrl.target_kl", "kl_target");
    map.copy("algorithm.kl_ctrl.horizon", "kl_horizon");
  }
  map.copy("actor_rollout_ref.rollout.temperature", "temperature");
  map.copy("actor_rollout_ref.rollout.top_p", "top_p");
}

RLCORE_INLINE void map_partial_rollout(openrlhf_mapping& map, std::int64_t queue) {
  options& opt = map.opt;
  const std::string mini = "actor_rollout_ref.actor.ppo_mini_batch_size";
  const std::int64_t step = opt.get<std::int64_t>("data.train_batch_size"), update = opt.get<std::int64_t>(mini);
  if (step % update != 0)
    throw config_error("--partial_rollout: --rollout_batch_size " + std::to_string(step) + " is no multiple of the " +
                       std::to_string(update) + " prompts of an update (--train_batch_size / --n_samples_per_prompt)");
  map.set("async_training.require_batches", value(step / update), "rollout_batch_size");
  map.set("async_training.trigger_parameter_sync_step", value(std::int64_t{1}));
  map.set("async_training.staleness_threshold", value(static_cast<double>(queue)), "async_queue_size");
  map.set("async_training.partial_rollout", value(true), "partial_rollout");
}

RLCORE_INLINE void map_openrlhf_run(openrlhf_mapping& map) {
  options& opt = map.opt;
  if (opt.get<bool>("async_train")) {
    const auto queue = opt.get<std::int64_t>("async_queue_size");
    if (opt.get<bool>("partial_rollout"))
      map_partial_rollout(map, queue);
    else if (queue == 1)
      map.set("rlcore.async_depth", value(std::int64_t{1}), "async_train");
    else
      throw config_error("--async_queue_size " + std::to_string(queue) +
                         ": expected 1, sampling one step ahead; more with --partial_rollout");
  } else if (opt.get<bool>("partial_rollout")) {
    throw config_error("--partial_rollout needs --async_train");
  } else if (opt.is_set("async_queue_size")) {
    opt.note("--async_queue_size has no effect without --async_train");
  }
  map.copy("trainer.total_epochs", "num_episodes");
  const std::int64_t frozen = opt.get<std::int64_t>("freezing_actor_steps"), save = opt.get<std::int64_t>("save_steps");
  map.set("trainer.critic_warmup", value(frozen < 0 ? std::int64_t{0} : frozen + 1), "freezing_actor_steps");
  map.set("trainer.save_freq", value(save > 0 ? save : std::numeric_limits<std::int64_t>::max()),
          "save_steps");  // the last step always
  map.copy("trainer.default_local_dir", "ckpt_path");
  map.copy("rlcore.export_path", "save_path");
  map.set("trainer.resume_mode", value(opt.get<bool>("load_checkpoint") ? "auto" : "disable"));
  if (!opt.is_set("trainer.resume_mode")) {
    opt.show_as("trainer.resume_mode", "load_checkpoint", "auto", "--load_checkpoint");
    opt.show_as("trainer.resume_mode", "load_checkpoint", "disable", "no --load_checkpoint");
  }
  map.copy("trainer.max_actor_ckpt_to_keep", "max_ckpt_num");
  map.set("trainer.project_name", value("openrlhf"));
  map.copy("trainer.experiment_name", "advantage_estimator");
  map.copy("rlcore.seed", "seed");
  map.copy("rlcore.zero_stage", "zero_stage");
  map.copy("rlcore.tensor_parallel_size", "ds_tensor_parallel_size");
  map.copy("rlcore.context_parallel_size", "ring_attn_size");
  map.set("rlcore.context_kind", value("gather_kv"));
  if (!opt.at("use_wandb").is_null()) {
    value::list loggers;
    for (const std::string& name : opt.list("trainer.logger")) loggers.emplace_back(name);
    loggers.emplace_back("wandb");
    map.set("trainer.logger", value(std::move(loggers)), "use_wandb");
  }
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE void apply_openrlhf_flags(options& opt) {
  if (opt.known().find("advantage_estimator") == nullptr || !detail::any_openrlhf_flag(opt)) return;
  detail::openrlhf_mapping map{opt};
  detail::map_openrlhf_models(map);
  detail::map_openrlhf_data(map);
  detail::map_openrlhf_batches(map);
  detail::map_openrlhf_objective(map);
  detail::map_openrlhf_run(map);
}

}  // namespace train
RLCORE_END
#endif
