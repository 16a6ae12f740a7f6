// Rules of policy training that span several settings, checked before any file is opened.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/config/algorithm/advantage_estimators.hpp"
#include "rlcore/config/algorithm/policy_losses.hpp"
#include "rlcore/config/algorithm/verl_version.hpp"
#include "rlcore/config/check_value.hpp"
#include "rlcore/config/checks/preference_checks.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/async_options.hpp"
#include "rlcore/config/settings/image_options.hpp"
#include "rlcore/config/settings/model_options.hpp"
#include "rlcore/config/settings/offload_options.hpp"
#include "rlcore/config/settings/rollout_ranks.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/parallel/launch.hpp"

RLCORE_BEGIN
namespace train {

namespace detail {

/// The number of ranks of this run, from its command line and mpirun.
inline int ranks_of(const options& opt) {
  return static_cast<int>(std::max<std::int64_t>(parallel::ranks_of_environment(), asked_ranks(opt)));
}

/// Throws config_error for a value of trainer.logger that is neither a logger of this library nor a tracker of verl.
void check_loggers(const options& opt);

void check_rollout(options& opt);

/// Checks that estimator, loss and rollout.n fit together.
void check_algorithm(options& opt);

/// Rejects values missing in the version selected by rlcore.verl; notes where the newest version averages differently
/// from the paper.
void check_verl_version(options& opt);

/// Checks the settings of individual policy losses.
void check_policy_loss(options& opt);

/// Adds notes for keys the estimator does not read.
void note_unused_by_estimator(options& opt);

/// Checks overrides of a model's config.json: dropout rates (0), the mixture-of-experts router, the attention kernel.
void check_model_overrides(options& opt);

/// Checks overrides passed to the optimizer class: only the placement of its state, nothing that changes a number.
void check_optimizer_overrides(const options& opt);

void check_sampling_rounds(options& opt);

void check_chat_template(const options& opt);

void check_micro_sizes(const options& opt);

void check_objective(options& opt);

/// Checks the resume settings.
void check_resumption(options& opt);

/// Checks the device, and settings that verl refuses on the devices that the command line names.
void check_devices(options& opt);

}  // namespace detail

/// Throws config_error for impossible combinations; adds notes for those with surprising effects.
void check_policy_options(options& opt);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train::detail {

RLCORE_INLINE void check_loggers(const options& opt) {
  const std::vector<std::string> here = {"console", "file", "tensorboard"};
  const std::vector<std::string> elsewhere = {"wandb", "mlflow", "swanlab", "vemlp_wandb", "clearml", "trackio"};
  for (const std::string& name : opt.list("trainer.logger")) {
    if (std::find(here.begin(), here.end(), name) != here.end()) continue;
    if (std::find(elsewhere.begin(), elsewhere.end(), name) != elsewhere.end()) continue;  // open_log() reports it
    auto known = here;
    known.insert(known.end(), elsewhere.begin(), elsewhere.end());
    throw config_error("trainer.logger=" + name + ": expected console, file, tensorboard or the name of a tracker" +
                       did_you_mean(name, known));
  }
}

RLCORE_INLINE void check_rollout(options& opt) {
  const std::string rollout = "actor_rollout_ref.rollout.", val = rollout + "val_kwargs.";
  if (opt.get<double>(rollout + "temperature") <= 0)
    throw config_error(rollout + "temperature=0: expected a number > 0; training samples at random");
  if (opt.get<bool>(val + "do_sample") && opt.get<double>(val + "temperature") <= 0)
    throw config_error(val + "do_sample=True needs " + val + "temperature > 0");
  for (const std::string& prefix : {rollout, val}) {
    if (opt.get<std::int64_t>(prefix + "top_k") == 0)
      throw config_error(prefix + "top_k=0: expected -1 (all tokens) or an integer >= 1");
    if (opt.get<double>(prefix + "top_p") <= 0) throw config_error(prefix + "top_p=0: expected a number > 0 and <= 1");
  }
  if (opt.get<double>(rollout + "repetition_penalty") == 0)
    throw config_error(rollout + "repetition_penalty=0: expected a number > 0; 1 penalises nothing");
  if (opt.get<double>(rollout + "gpu_memory_utilization") == 0)
    throw config_error(rollout + "gpu_memory_utilization=0: expected a number > 0 and <= 1");
  const std::int64_t width =
      opt.get<std::int64_t>("data.max_prompt_length") + opt.get<std::int64_t>("data.max_response_length");
  const auto model_length = opt.find<std::int64_t>(rollout + "max_model_len");
  if (model_length && *model_length < width)
    throw config_error(rollout + "max_model_len=" + std::to_string(*model_length) +
                       " is smaller than data.max_prompt_length + data.max_response_length = " + std::to_string(width));
  const std::int64_t longest = model_length.value_or(width),
                     batched = opt.get<std::int64_t>(rollout + "max_num_batched_tokens");
  const bool is_set =
      opt.is_set(rollout + "max_num_batched_tokens") || opt.is_set(rollout + "enable_chunked_prefill") || model_length;
  if (is_set && opt.get<bool>(rollout + "enable_chunked_prefill") && batched < longest)
    throw config_error(rollout + "max_num_batched_tokens=" + std::to_string(batched) +
                       " is smaller than the longest sequence of " + std::to_string(longest) +
                       " tokens, which enable_chunked_prefill=True does not allow");
  note_truncated_sampling(opt);
  const bool same = opt.get<std::string>("rlcore.rollout_weights") == "same" &&
                    !opt.find<std::string>("algorithm.rollout_correction.rollout_is") &&
                    !opt.find<std::string>("algorithm.rollout_correction.rollout_rs") &&
                    !(rollout_ranks(opt, ranks_of(opt)) && opt.get<std::int64_t>("rlcore.row_chunks") == 0 &&
                      opt.get<std::int64_t>("rlcore.async_depth") == 0);
  if (!opt.get<bool>("rlcore.recompute_old_log_prob") && same)
    for (const char* name : {"log_prob_micro_batch_size_per_gpu", "log_prob_micro_batch_size",
                             "log_prob_use_dynamic_bsz", "log_prob_max_token_len_per_gpu"})
      if (opt.is_set(rollout + name))
        opt.note(
            rollout + name +
            " has no effect without rlcore.recompute_old_log_prob=True: the old log-probs are those recorded while "
            "sampling");
}

RLCORE_INLINE void check_algorithm(options& opt) {
  const std::string estimator = opt.get<std::string>("algorithm.adv_estimator"),
                    losses = "actor_rollout_ref.actor.policy_loss.", mode = opt.get<std::string>(losses + "loss_mode");
  const std::string chosen = "algorithm.adv_estimator=" + estimator;
  if (estimator == named::gigpo::word && !opt.get<bool>("actor_rollout_ref.rollout.multi_turn.enable") &&
      !opt.find<std::string>("rlcore.agent_func_path"))
    opt.note(chosen + ": every response is one turn, so this is grpo, times 1 + algorithm.gigpo.step_advantage_w");
  const bool openrlhf = opt.get<std::string>("rlcore.advantages") == "openrlhf";
  if (openrlhf && !openrlhf_estimator_words::has(estimator))
    throw config_error("rlcore.advantages=openrlhf has no " + estimator + "; expected one of " +
                       openrlhf_estimator_words::listed());
  if (estimator == named::remax::word && opt.get<bool>("rlcore.replay_scores"))
    throw config_error(chosen + ": nothing scores its greedy answers with rlcore.replay_scores=True");
  const std::string correction = "algorithm.rollout_correction.rollout_is";
  const auto weights = opt.find<std::string>(correction);
  if (weights && !traits_of_policy_loss(mode).scales_with_advantage)
    throw config_error(correction + "=" + *weights + ": " + losses + "loss_mode=" + mode +
                       " is not a multiple of the advantage, so that the weights would not be those of its loss");
  for (const char* name : {"_threshold", "_batch_normalize"})
    if (!weights && opt.is_set(correction + name)) opt.note(correction + name + " has no effect without rollout_is");
  const std::string rejection = "algorithm.rollout_correction.rollout_rs";
  if (!opt.find<std::string>(rejection) && opt.is_set(rejection + "_threshold"))
    opt.note(rejection + "_threshold has no effect without rollout_rs");
  const estimator_traits traits = traits_of_estimator(estimator);
  if (opt.get<bool>("rlcore.turn_rewards") && !traits.by_token)
    opt.note("rlcore.turn_rewards=True has no effect with " + chosen + ", which sees the sum of a response's rewards");
  if (traits_of_policy_loss(mode).by_response && (openrlhf || traits.by_token))
    throw config_error(losses + "loss_mode=" + mode + " takes one advantage per response, " + chosen +
                       " has one per token; expected an estimator such as grpo or rloo");
  if ((!traits.by_token || estimator == "gigpo") && opt.get<std::int64_t>("actor_rollout_ref.rollout.n") == 1)
    opt.note("actor_rollout_ref.rollout.n=1: a group of one has nothing to be compared with; " +
             (estimator == "grpo" ? "GRPO" : estimator) + " learns from n=2 on");
}

RLCORE_INLINE void check_verl_version(options& opt) {
  const std::string actor = "actor_rollout_ref.actor.", mode = actor + "policy_loss.loss_mode",
                    average = actor + "loss_agg_mode";
  if (opt.get<std::string>("rlcore.advantages") != "openrlhf")
    check_word_since<estimator_words>(opt, "algorithm.adv_estimator");
  check_word_since<policy_loss_words>(opt, mode);
  for (const std::string& key : {average, std::string("critic.loss_agg_mode")})
    check_word_since<aggregation_words>(opt, key);
  if (opt.get<std::string>(actor + "kl_loss_type").ends_with('+'))
    check_since(opt, actor + "kl_loss_type=" + opt.get<std::string>(actor + "kl_loss_type"), verl::version::v0_8_0);
  if (opt.find<double>(actor + "loss_scale_factor"))
    check_since(opt, actor + "loss_scale_factor", verl::version::v0_8_0);
  if (opt.get<std::string>(mode) == named::gspo::word && !opt.is_set(average) &&
      read_verl_version(opt) >= verl::version::v0_9_1)
    opt.note(mode + "=gspo is averaged by " + average + "=" + opt.get<std::string>(average) +
             ", as in verl 0.9.1; the paper and verl through 0.8.0 have seq-mean-token-mean");
}

RLCORE_INLINE void check_policy_loss(options& opt) {
  const std::string actor = "actor_rollout_ref.actor.", losses = actor + "policy_loss.";
  if (opt.get<std::string>(losses + "loss_mode") == named::clip_cov::word &&
      !(opt.get<double>(losses + "clip_cov_lb") < opt.get<double>(losses + "clip_cov_ub")))
    throw config_error(losses + "clip_cov_lb=" + inline_text(opt.at(losses + "clip_cov_lb")) +
                       ": expected a number below clip_cov_ub=" + inline_text(opt.at(losses + "clip_cov_ub")));
  if (opt.get<std::string>(losses + "loss_mode") == named::dro::word &&
      !(opt.find<double>(losses + "dro_beta").value_or(0) > 0))
    throw config_error(losses + "loss_mode=dro needs " + losses + "dro_beta, a number > 0, e.g. 0.1");
  for (const char* share : {"clip_cov_ratio", "kl_cov_ratio"})
    if (opt.get<double>(losses + share) == 0) throw config_error(losses + share + "=0: expected a number > 0 and <= 1");
  for (const std::string& name : {actor + "tau_pos", actor + "tau_neg"})
    if (opt.get<double>(name) <= 0)
      throw config_error(name + "=" + inline_text(opt.at(name)) + ": expected a number > 0");
}

RLCORE_INLINE void note_unused_by_estimator(options& opt) {
  const std::string estimator = opt.get<std::string>("algorithm.adv_estimator"),
                    chosen = "algorithm.adv_estimator=" + estimator;
  if (opt.get<std::string>("rlcore.advantages") != "openrlhf")
    for (const char* name : {"rlcore.reward_clip_range", "rlcore.scale_advantages"})
      if (opt.is_set(name)) opt.note(std::string(name) + " has no effect without rlcore.advantages=openrlhf");
  const estimator_traits traits = traits_of_estimator(estimator);
  if (!opt.find<bool>("critic.enable").value_or(contains(traits.inputs, advantage_input::values))) {
    std::string unused;
    for (const key& k : opt.known().keys())
      if (k.name.starts_with("critic.") && k.name != "critic.enable" && k.use == disposition::honoured &&
          opt.is_set(k.name))
        unused += (unused.empty() ? "" : ", ") + std::string(k.name);
    if (!unused.empty()) opt.note(unused + ": no effect, " + chosen + " has no critic");
  }
  const auto without_effect = [&](const std::string& key, bool used) {
    if (!used && opt.is_set(key)) opt.note(key + " has no effect with " + chosen);
  };
  without_effect("algorithm.gamma", traits.uses.gamma);
  without_effect("algorithm.lam", traits.uses.lambda);
  without_effect("algorithm.norm_adv_by_std_in_grpo", traits.uses.normalize_by_std);
  for (const char* key : {"algorithm.gigpo.step_advantage_w", "algorithm.gigpo.mode"})
    without_effect(key, estimator == named::gigpo::word);
}

RLCORE_INLINE void check_model_overrides(options& opt) {
  const std::string map = "actor_rollout_ref.model.override_config";
  for (const member& m : *opt.at(map).as<value::map>()) {
    const std::string setting = map + "." + m.name + "=" + inline_text(m.item);
    const std::vector<std::string> known = {"attn_implementation", "attention_dropout", "embd_pdrop", "resid_pdrop",
                                            "hidden_dropout"};
    if (m.name == "moe_config" || m.name == "attn_implementation") continue;  // no effect, see the note
    if (std::find(known.begin(), known.end(), m.name) == known.end())
      throw config_error(setting + ": config.json says what the model is; edit it in a copy of the model's folder" +
                         did_you_mean(m.name, known));
    const auto* real = m.item.as<double>();
    const auto* whole = m.item.as<std::int64_t>();
    if (!(real != nullptr && *real == 0) && !(whole != nullptr && *whole == 0))
      throw config_error(setting + ": expected 0; this build has no dropout");
  }
  for (const char* role : {"actor", "ref"})
    if (opt.find<std::string>("actor_rollout_ref." + std::string(role) + ".megatron.dist_checkpointing_path"))
      opt.note("actor_rollout_ref." + std::string(role) +
               ".megatron.dist_checkpointing_path is not read: the weights are those of actor_rollout_ref.model.path");
}

RLCORE_INLINE void check_optimizer_overrides(const options& opt) {
  const std::vector<std::string> known = {"optimizer_cpu_offload",
                                          "optimizer_offload_fraction",
                                          "overlap_cpu_optimizer_d2h_h2d",
                                          "use_precision_aware_optimizer",
                                          "fused",
                                          "foreach"};
  for (const char* optimizer : {"actor_rollout_ref.actor.optim.", "critic.optim."}) {
    const std::string map = std::string(optimizer) + "override_optimizer_config";
    for (const member& m : *opt.at(map).as<value::map>())
      if (std::find(known.begin(), known.end(), m.name) == known.end())
        throw config_error(map + "." + m.name + "=" + inline_text(m.item) + ": AdamW here has " + optimizer +
                           "lr, betas and weight_decay, and an epsilon of 1e-8" + did_you_mean(m.name, known));
  }
}

RLCORE_INLINE void check_sampling_rounds(options& opt) {
  if (opt.find<std::string>("rlcore.agent_func_path"))
    for (const char* key : {"rlcore.on_tool_failure", "rlcore.tool_text_special", "rlcore.turn_newline",
                            "actor_rollout_ref.rollout.multi_turn.max_parallel_calls",
                            "actor_rollout_ref.rollout.multi_turn.max_tool_response_length",
                            "actor_rollout_ref.rollout.multi_turn.tool_response_truncate_side"})
      if (opt.is_set(key)) opt.note(std::string(key) + " has no effect with an agent, which calls no tool");
  const std::string filter = "algorithm.filter_groups.";
  if (!opt.get<bool>(filter + "enable")) {
    if (opt.is_set("rlcore.keep_surplus"))
      opt.note("rlcore.keep_surplus has no effect without " + filter + "enable=True");
    return;
  }
  const auto metric = opt.find<std::string>(filter + "metric");
  if (!metric)
    throw config_error(filter + "enable=True needs " + filter + "metric: acc, score, seq_reward or seq_final_reward");
  if (*metric == "seq_final_reward" && !opt.get<bool>("algorithm.use_kl_in_reward"))
    opt.note(filter + "metric=seq_final_reward is seq_reward without algorithm.use_kl_in_reward=True");
  if (opt.get<std::int64_t>("actor_rollout_ref.rollout.n") == 1)
    opt.note(filter + "enable=True with rollout.n=1: a group of one is always kept");
  if (opt.find<std::string>("rlcore.replay"))
    opt.note(filter + "enable=True has no effect with rlcore.replay: the stored groups are the ones that were kept");
}

RLCORE_INLINE void check_chat_template(const options& opt) {
  for (const member& m : *opt.at("data.apply_chat_template_kwargs").as<value::map>()) {
    const std::string name = "data.apply_chat_template_kwargs." + m.name;
    if (m.name != "enable_thinking")
      throw config_error(name + ": the chat templates here know enable_thinking only" +
                         did_you_mean(m.name, std::vector<std::string>{"enable_thinking"}));
    if (m.item.as<bool>() == nullptr) throw config_error(name + "=" + inline_text(m.item) + ": expected True or False");
  }
}

RLCORE_INLINE void check_micro_sizes(const options& opt) {
  for (const char* name :
       {"critic.ppo_micro_batch_size", "critic.forward_micro_batch_size",
        "actor_rollout_ref.actor.ppo_micro_batch_size", "actor_rollout_ref.rollout.log_prob_micro_batch_size",
        "actor_rollout_ref.ref.log_prob_micro_batch_size"})
    if (opt.find<std::int64_t>(name) && opt.find<std::int64_t>(std::string(name) + "_per_gpu"))
      throw config_error("both " + std::string(name) + " and " + name + "_per_gpu are set; keep the latter");
}

RLCORE_INLINE void check_objective(options& opt) {
  const std::string actor = "actor_rollout_ref.actor.";
  if (opt.is_set(actor + "clip_ratio"))
    for (const char* side : {"clip_ratio_low", "clip_ratio_high"})
      if (!opt.is_set(actor + side)) {
        opt.set(actor + side, opt.at(actor + "clip_ratio"));
        opt.note(actor + side + "=" + inline_text(opt.at(actor + "clip_ratio")) +
                 ", from clip_ratio (verl keeps 0.2 here)");
      }
  if (opt.get<double>(actor + "clip_ratio_c") <= 1)
    throw config_error(actor + "clip_ratio_c=" + inline_text(opt.at(actor + "clip_ratio_c")) +
                       ": expected a number > 1");
  const bool in_reward = opt.get<bool>("algorithm.use_kl_in_reward");
  if (in_reward && opt.get<bool>(actor + "use_kl_loss"))
    opt.note("the KL to the reference counts twice: in the reward (use_kl_in_reward) and in the loss (use_kl_loss)");
  if (!in_reward && opt.is_set("algorithm.kl_ctrl.kl_coef"))
    opt.note("algorithm.kl_ctrl.kl_coef has no effect without algorithm.use_kl_in_reward=True");
  if (!opt.get<bool>(actor + "use_kl_loss") && opt.is_set(actor + "kl_loss_coef"))
    opt.note(actor + "kl_loss_coef has no effect without " + actor + "use_kl_loss=True");
  if (!opt.get<bool>(actor + "use_dynamic_bsz") && opt.is_set(actor + "ppo_max_token_len_per_gpu"))
    opt.note(actor + "ppo_max_token_len_per_gpu has no effect without " + actor + "use_dynamic_bsz=True");
}

RLCORE_INLINE void check_resumption(options& opt) {
  const auto path = opt.find<std::string>("trainer.resume_from_path");
  const std::string mode = opt.get<std::string>("trainer.resume_mode");
  if (mode == "resume_path" && !path)
    throw config_error("trainer.resume_mode=resume_path needs trainer.resume_from_path=.../global_step_N");
  if (path && path->find("global_step_") == std::string::npos)
    throw config_error("trainer.resume_from_path=" + *path + ": expected a folder called global_step_N");
  if (path && mode != "resume_path")
    opt.note("trainer.resume_from_path has no effect without trainer.resume_mode=resume_path; trainer.resume_mode is " +
             mode);
}

RLCORE_INLINE void check_devices(options& opt) {
  check_device_options(opt), check_offload_options(opt);
  note_rollout_ranks(opt, ranks_of(opt));
  const std::int64_t world = asked_ranks(opt);
  if (world == 0) return;
  const std::int64_t sequence =
      opt.find<std::int64_t>("actor_rollout_ref.actor.ulysses_sequence_parallel_size").value_or(1);
  if (sequence > 1 && !opt.find<bool>("actor_rollout_ref.model.use_remove_padding").value_or(false))
    opt.note("verl would refuse this: ulysses_sequence_parallel_size=" + std::to_string(sequence) +
             " needs use_remove_padding=True");
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE void check_policy_options(options& opt) {
  apply_async_training(opt);
  detail::check_devices(opt);
  detail::check_loggers(opt);
  detail::check_objective(opt);
  detail::check_verl_version(opt);
  detail::check_algorithm(opt);
  detail::check_policy_loss(opt);
  detail::note_unused_by_estimator(opt);
  detail::check_rollout(opt);
  detail::check_micro_sizes(opt);
  detail::check_chat_template(opt);
  check_image_options(opt);
  detail::check_sampling_rounds(opt);
  detail::check_model_overrides(opt);
  detail::check_optimizer_overrides(opt);
  check_reward_options(opt);
  note_unused_lora(opt, "actor_rollout_ref.model.");
  read_lora(opt, "critic.model.", 1);
  if (read_lora(opt, "actor_rollout_ref.model.", 1) &&
      opt.get<std::string>("actor_rollout_ref.actor.strategy") == "megatron")
    opt.note("verl's Megatron workers have no LoRA; here it is trained all the same");
  if (const auto every = opt.get<std::int64_t>("trainer.save_freq");
      every <= 0 && !opt.find<std::string>("rlcore.export_path") && !opt.get<bool>("trainer.val_only"))
    opt.note("trainer.save_freq=" + std::to_string(every) +
             ": the trained model is not kept; rlcore.export_path=FOLDER receives it at the end, trainer.save_freq=N "
             "writes checkpoints");
  detail::check_resumption(opt);
}

}  // namespace train
RLCORE_END
#endif
