// Policy training settings, read once from the command line and checked before any work starts.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "rlcore/config/algorithm/policy_losses.hpp"
#include "rlcore/config/algorithm/verl_version.hpp"
#include "rlcore/config/check_value.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/async_options.hpp"
#include "rlcore/config/settings/image_options.hpp"
#include "rlcore/config/settings/model_options.hpp"
#include "rlcore/config/settings/offload_options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/optim/schedule.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/train/policy/dynamic_sampling.hpp"
#include "rlcore/train/policy/open.hpp"
#include "rlcore/train/policy/reward/reward_settings.hpp"
#include "rlcore/train/policy/rollout_rejection.hpp"
#include "rlcore/train/policy/rollout_weights.hpp"
#include "rlcore/train/policy/tools.hpp"
#include "rlcore/train/run/open_log.hpp"

RLCORE_BEGIN
namespace train {

/// KL(old policy, reference) inside the reward: algorithm.use_kl_in_reward and its controller.
struct reward_kl_settings {
  bool enabled = false, adaptive = false;
  double coefficient = 0.001, target = 0.1, horizon = 10000;
  kl_kind kind = kl_kind::k1;
};

/// Settings of a policy run; filled by read_settings().
struct policy_settings {
  // data
  std::vector<std::string> train_files, val_files;
  std::int64_t train_rows = -1, val_rows = -1;  ///< only the first so many; <= 0: all
  std::string prompt_key, source_key = "data_source", label_key, default_source;
  std::optional<bool> enable_thinking = {};  ///< of the chat template; unset: its default
  std::int64_t max_prompt_length = 0, max_response_length = 0;
  bool filter_overlong_prompts = false, shuffle = true;
  std::string truncation;
  image_options images;
  // model and device
  std::string model_path;
  bool recompute_activations = true;
  std::optional<nn::lora_settings> lora = {};
  bool freeze_vision_tower = false;
  bool save_whole = true;  ///< checkpoints of several ranks hold huggingface/*.safetensors too
  std::size_t logits_bytes = 0;
  std::uint64_t seed = 1;
  // rollout
  std::int64_t samples = 1, max_sequences = 64, max_batched_tokens = 2048;
  rollout::sampling sampling, val_sampling;
  rollout::logit_rules rules;  ///< of both
  tool_settings tools;
  rollout_weight_settings rollout_weighting;
  std::vector<rejection_rule> rollout_rejection;
  bool samples_ahead = false;  ///< rlcore.async_depth=1
  async_settings async;
  bool recorded_old_log_prob = false;  ///< of replayed responses too
  bool keep_routes = false;            ///< update_plan::keep_routes
  bool sampled_routes = false;         ///< they are asked for as those of sampling (R3)
  bool stored_routes = false;          ///< the experts of replayed responses are those of the engine that sampled
  bool keep_sampling_mask = false;     ///< log-probs are over the tokens that top-k, top-p and min-p left
  std::int64_t val_samples = 1;
  double cache_share = 0.5;  ///< of the memory that is available at the start
  bool share_prompts = true, chunk_prompts = true, recompute_old_log_prob = false;
  std::optional<weight_format> rollout_weights = {};  ///< unset: those of training
  bool free_cache = true;                             ///< keys and values, between two rollouts
  bool offload_reference = false;                     ///< its weights are read from the folder for each pass
  // objective
  any_aggregation entropy_mean;  ///< of actor/entropy: the loss's
  reward_kl_settings reward_kl;
  reward_settings reward;
  dynamic_sampling_settings dynamic_sampling;
  // optimizer
  double lr = 1e-6, grad_clip = 1;
  optim::adamw_settings adamw;
  optim::schedule schedule;
  bool lr_per_update = false;  ///< the schedule advances with every update, else with every step
  std::int64_t epochs_per_step = 1;
  bool shuffle_mini_batches = false, decay_norms_and_biases = true;
  // trainer
  std::string root, resume_mode, resume_path, rollout_dir, replay, events_dir, export_path, export_type;
  double replay_wait_s = 0;  ///< seconds to wait for the responses of a step
  std::vector<std::string> loggers;
  console_style console = console_style::automatic;
  std::int64_t save_freq = -1, test_freq = -1, keep = 0, critic_warmup = 0;
  bool val_before_train = true, val_only = false, report = true;
};

/// verl's spelling of a KL estimator, without a trailing '+'; the registry has refused every other word.
kl_kind kl_kind_of(const std::string& name);

/// The aggregation that `key` names, e.g. critic.loss_agg_mode; `length` is the divisor of seq-mean-token-sum-norm.
inline any_aggregation read_aggregation(const options& opt, const std::string& key, double length) {
  const aggregation_settings settings{length, read_verl_version(opt)};
  return aggregation_words::visit(key, opt.get<std::string>(key), [&](auto row) { return row.compose(settings); });
}

/// A list of two numbers; throws config_error with `expected` if it is not one for which `right` holds.
template <class Right>
std::pair<double, double> read_pair(const options& opt, const std::string& name, const char* expected, Right&& right) {
  const std::vector<std::string> texts = opt.list(name);
  double x[2] = {};
  bool good = texts.size() == 2;
  for (std::size_t i = 0; i < 2 && good; ++i) {
    const char* end = texts[i].data() + texts[i].size();
    const auto [stop, code] = std::from_chars(texts[i].data(), end, x[i]);
    good = code == std::errc() && stop == end;
  }
  if (!good || !right(x[0], x[1]))
    throw config_error(name + "=" + inline_text(opt.at(name)) + ": expected " + expected);
  return {x[0], x[1]};
}

/// actor.loss_agg_mode.
any_aggregation read_loss_aggregation(const options& opt);

/// The schedule that <prefix>warmup_style etc. describe, e.g. of prefix "critic.optim."; its total_steps are not set.
optim::schedule read_schedule(const options& opt, const std::string& prefix);

/// AdamW's settings below `prefix`.
optim::adamw_settings read_adamw(const options& opt, const std::string& prefix);

/// False if the command line lists the contents of checkpoints without hf_model.
inline bool saves_whole(const options& opt, const std::string& contents) {
  if (!opt.is_set(contents)) return true;
  const std::vector<std::string> saved = opt.list(contents);
  return std::find(saved.begin(), saved.end(), "hf_model") != saved.end();
}

namespace detail {

/// data.*
void read_data_settings(policy_settings& s, const options& opt);

/// The model, its adapter and what its checkpoints hold.
void read_model_settings(policy_settings& s, const options& opt);

/// actor_rollout_ref.rollout.*
void read_rollout_settings(policy_settings& s, const options& opt);

/// Advantages, losses and rewards, and the groups that are trained on.
void read_objective_settings(policy_settings& s, const options& opt);

/// actor_rollout_ref.actor.optim.* and the updates of a step.
void read_optimizer_settings(policy_settings& s, const options& opt);

/// trainer.*: files, checkpoints and validation.
void read_run_settings(policy_settings& s, const options& opt);

}  // namespace detail

/// All settings of a policy run, after check_policy_options(). Throws config_error.
policy_settings read_settings(const options& opt);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE kl_kind kl_kind_of(const std::string& name) {
  if (name == "kl" || name == "k1") return kl_kind::k1;
  if (name == "abs") return kl_kind::abs_kl;
  if (name == "mse" || name == "k2") return kl_kind::k2;
  if (name == "low_var_kl" || name == "k3") return kl_kind::k3;
  throw config_error("'" + name + "' is not a KL estimator; expected kl, abs, mse or low_var_kl");
}

RLCORE_INLINE any_aggregation read_loss_aggregation(const options& opt) {
  const std::string actor = "actor_rollout_ref.actor.";
  return read_aggregation(opt, actor + "loss_agg_mode",
                          opt.find<double>(actor + "loss_scale_factor")
                              .value_or(static_cast<double>(opt.get<std::int64_t>("data.max_response_length"))));
}

RLCORE_INLINE policy_loss_settings read_policy_loss(const options& opt) {
  const std::string actor = "actor_rollout_ref.actor.", losses = actor + "policy_loss.";
  std::string kl = opt.get<std::string>(actor + "kl_loss_type");
  policy_loss_settings s;
  s.mode = opt.get<std::string>(losses + "loss_mode");
  s.clip = {.clip_low = opt.get<double>(actor + "clip_ratio_low"),
            .clip_high = opt.get<double>(actor + "clip_ratio_high"),
            .clip_c = opt.get<double>(actor + "clip_ratio_c")};
  s.aggregation = read_loss_aggregation(opt);
  s.version = read_verl_version(opt);
  s.straight_through = kl.ends_with('+');
  if (s.straight_through) kl.pop_back();
  s.kl = kl_kind_of(kl);
  s.use_kl = opt.get<bool>(actor + "use_kl_loss");
  s.kl_coef = opt.get<double>(actor + "kl_loss_coef");
  s.entropy_coeff = opt.get<double>(actor + "entropy_coeff");
  s.clip_cov.share = opt.get<double>(losses + "clip_cov_ratio");
  s.clip_cov.low = opt.get<double>(losses + "clip_cov_lb");
  s.clip_cov.high = opt.get<double>(losses + "clip_cov_ub");
  s.kl_cov.share = opt.get<double>(losses + "kl_cov_ratio");
  s.ppo_kl_coef = opt.get<double>(losses + "ppo_kl_coef");
  s.dro_beta = opt.find<double>(losses + "dro_beta").value_or(0);
  s.gate = {opt.get<double>(actor + "tau_pos"), opt.get<double>(actor + "tau_neg")};
  return s;
}

RLCORE_INLINE optim::schedule read_schedule(const options& opt, const std::string& prefix) {
  const std::string style = opt.get<std::string>(prefix + "warmup_style");
  optim::schedule schedule;
  if (style.starts_with("cosine")) schedule.kind = optim::schedule_kind::cosine;
  schedule.warmup_steps = opt.get<std::int64_t>(prefix + "lr_warmup_steps");
  schedule.warmup_ratio = opt.get<double>(prefix + "lr_warmup_steps_ratio");
  schedule.min_lr_ratio = opt.find<double>(prefix + "min_lr_ratio").value_or(0);
  if (style == "cosine" && read_verl_version(opt) < verl::version::v0_6_1)
    schedule.init_lr_ratio = schedule.min_lr_ratio;
  if (opt.known().find(prefix + "num_cycles") != nullptr) schedule.num_cycles = opt.get<double>(prefix + "num_cycles");
  return schedule;
}

RLCORE_INLINE optim::adamw_settings read_adamw(const options& opt, const std::string& prefix) {
  optim::adamw_settings adamw;
  adamw.weight_decay = opt.get<double>(prefix + "weight_decay");
  const auto& betas = *opt.at(prefix + "betas").as<value::list>();
  adamw.beta1 = *betas[0].as<double>(), adamw.beta2 = *betas[1].as<double>();
  return adamw;
}

}  // namespace train

namespace train::detail {

RLCORE_INLINE void read_data_settings(policy_settings& s, const options& opt) {
  s.train_files = opt.list("data.train_files");
  s.val_files = opt.list("data.val_files");
  s.train_rows = opt.get<std::int64_t>("data.train_max_samples");
  s.val_rows = opt.get<std::int64_t>("data.val_max_samples");
  s.prompt_key = opt.get<std::string>("data.prompt_key");
  s.source_key = opt.get<std::string>("data.reward_fn_key");
  if (const value* thinking = opt.at("data.apply_chat_template_kwargs").find("enable_thinking"))
    s.enable_thinking = *thinking->as<bool>();  // check_policy_options() has seen to the type
  s.label_key = opt.find<std::string>("rlcore.label_key").value_or("");
  s.default_source = opt.find<std::string>("rlcore.data_source").value_or("");
  s.max_prompt_length = opt.get<std::int64_t>("data.max_prompt_length");
  s.max_response_length = opt.get<std::int64_t>("data.max_response_length");
  s.filter_overlong_prompts = opt.get<bool>("data.filter_overlong_prompts");
  s.shuffle = opt.get<bool>("data.shuffle");
  s.truncation = opt.get<std::string>("data.truncation");
  s.images = read_image_options(opt);
}

RLCORE_INLINE void read_model_settings(policy_settings& s, const options& opt) {
  s.model_path = opt.get<std::string>("actor_rollout_ref.model.path");
  s.recompute_activations = opt.get<bool>("actor_rollout_ref.model.enable_gradient_checkpointing");
  s.logits_bytes = static_cast<std::size_t>(opt.get<std::int64_t>("rlcore.logits_memory_mb")) << 20;
  s.seed = static_cast<std::uint64_t>(opt.get<std::int64_t>("rlcore.seed"));
  s.lora = read_lora(opt, "actor_rollout_ref.model.", s.seed);
  s.freeze_vision_tower = opt.get<bool>("actor_rollout_ref.actor.freeze_vision_tower");
  s.save_whole = saves_whole(opt, "actor_rollout_ref.actor.checkpoint.save_contents");
}

RLCORE_INLINE void read_rollout_settings(policy_settings& s, const options& opt) {
  const std::string rollout = "actor_rollout_ref.rollout.";
  s.samples = opt.get<std::int64_t>(rollout + "n");
  s.max_sequences =
      opt.find<std::int64_t>("rlcore.max_decode_batch").value_or(opt.get<std::int64_t>(rollout + "max_num_seqs"));
  s.max_batched_tokens = opt.get<std::int64_t>(rollout + "max_num_batched_tokens");
  s.cache_share = opt.get<double>(rollout + "gpu_memory_utilization");
  s.share_prompts = opt.get<bool>(rollout + "enable_prefix_caching");
  s.chunk_prompts = opt.get<bool>(rollout + "enable_chunked_prefill");
  s.async = read_async_training(opt);
  s.recompute_old_log_prob = opt.get<bool>("rlcore.recompute_old_log_prob");
  s.free_cache = opt.get<bool>("actor_rollout_ref.rollout.free_cache_engine");
  s.offload_reference = opt.get<bool>("actor_rollout_ref.ref.fsdp_config.param_offload");
  if (opt.get<std::string>("rlcore.rollout_weights") == "int8") {
    s.rollout_weights = weight_format::int8;
    // The recorded ones belong to a different model. Asynchronous runs keep what is recorded unless asked.
    s.recompute_old_log_prob = s.recompute_old_log_prob || !s.async.enabled;
  }
  s.sampling = {static_cast<float>(opt.get<double>(rollout + "temperature")), opt.get<std::int64_t>(rollout + "top_k"),
                static_cast<float>(opt.get<double>(rollout + "top_p")),
                static_cast<float>(opt.get<double>(rollout + "min_p"))};
  s.keep_sampling_mask = opt.get<bool>("rlcore.keep_sampling_mask") && s.sampling.truncates();
  s.rules = read_penalties(opt, rollout);
  s.tools = read_tool_settings(opt);
  s.rollout_weighting = read_rollout_weights(opt);
  s.rollout_rejection = read_rollout_rejection(opt);
  if (s.rollout_weighting.enabled || !s.rollout_rejection.empty()) {
    if (opt.is_set("rlcore.recompute_old_log_prob") && !s.recompute_old_log_prob)
      throw config_error("rlcore.recompute_old_log_prob=False: algorithm.rollout_correction." +
                         std::string(s.rollout_weighting.enabled ? "rollout_is" : "rollout_rs") +
                         " compares old log-probs of its own with the recorded ones; leave one of them out");
    s.recompute_old_log_prob = true;
  }
  const bool bypass = opt.get<bool>("algorithm.rollout_correction.bypass_mode");
  if (bypass && opt.find<std::string>("rlcore.replay")) s.recompute_old_log_prob = false;
  s.recorded_old_log_prob = !s.recompute_old_log_prob && (s.async.enabled || bypass);
  s.samples_ahead = opt.get<std::int64_t>("rlcore.async_depth") > 0;
  const std::string route_key = "actor_rollout_ref.actor.router_replay.mode", routes = opt.get<std::string>(route_key);
  s.stored_routes = routes == "R3" && opt.find<std::string>("rlcore.replay");
  s.keep_routes = routes != "disabled" && !s.stored_routes;
  s.sampled_routes = routes == "R3" && s.keep_routes;
  if (s.sampled_routes && (s.async.enabled || s.samples_ahead))
    throw config_error(opt.known().typed_name(route_key) +
                       "=R3: earlier weights have sampled the responses, and what they routed is not recorded; R2 "
                       "keeps the experts that the policy chooses before its first update");
  const std::string val = rollout + "val_kwargs.";
  s.val_sampling = {static_cast<float>(opt.get<double>(val + "temperature")), opt.get<std::int64_t>(val + "top_k"),
                    static_cast<float>(opt.get<double>(val + "top_p")), s.sampling.min_p};
  if (!opt.get<bool>(val + "do_sample")) s.val_sampling = {0, -1, 1};
  s.val_samples = opt.get<std::int64_t>(val + "n");
}

RLCORE_INLINE void read_objective_settings(policy_settings& s, const options& opt) {
  s.entropy_mean = read_loss_aggregation(opt);
  s.reward_kl = {
      opt.get<bool>("algorithm.use_kl_in_reward"),  opt.get<std::string>("algorithm.kl_ctrl.type") == "adaptive",
      opt.get<double>("algorithm.kl_ctrl.kl_coef"), opt.get<double>("algorithm.kl_ctrl.target_kl"),
      opt.get<double>("algorithm.kl_ctrl.horizon"), kl_kind_of(opt.get<std::string>("algorithm.kl_penalty"))};
  s.reward = read_reward_settings(opt);
  const std::string filter = "algorithm.filter_groups.";
  s.dynamic_sampling.enabled = opt.get<bool>(filter + "enable");
  if (const auto metric = opt.find<std::string>(filter + "metric"))
    s.dynamic_sampling.metric = group_metric_of(*metric);
  s.dynamic_sampling.max_rounds = opt.get<std::int64_t>(filter + "max_num_gen_batches");
  s.dynamic_sampling.keep_surplus = opt.get<bool>("rlcore.keep_surplus");
}

RLCORE_INLINE void read_optimizer_settings(policy_settings& s, const options& opt) {
  const std::string actor = "actor_rollout_ref.actor.";
  s.lr = opt.get<double>(actor + "optim.lr");
  s.schedule = read_schedule(opt, actor + "optim.");
  s.lr_per_update = opt.get<bool>("rlcore.lr_per_update");
  s.adamw = read_adamw(opt, actor + "optim.");
  s.adamw.moments = read_moment_place(opt);
  s.decay_norms_and_biases = opt.get<bool>("rlcore.decay_norms_and_biases");
  s.grad_clip = opt.get<double>(actor + "grad_clip");
  s.epochs_per_step = opt.get<std::int64_t>(actor + "ppo_epochs");
  s.shuffle_mini_batches = opt.get<bool>(actor + "shuffle");
}

RLCORE_INLINE void read_run_settings(policy_settings& s, const options& opt) {
  s.root = opt.get<std::string>("trainer.default_local_dir");
  s.resume_mode = opt.get<std::string>("trainer.resume_mode");
  s.resume_path = opt.find<std::string>("trainer.resume_from_path").value_or("");
  s.rollout_dir = opt.find<std::string>("trainer.rollout_data_dir").value_or("");
  s.replay = opt.find<std::string>("rlcore.replay").value_or("");
  s.replay_wait_s = opt.get<double>("rlcore.replay_wait_s");
  if (s.replay.empty() && (s.replay_wait_s > 0 || s.reward.stored))
    throw config_error(std::string(s.reward.stored ? "rlcore.replay_scores" : "rlcore.replay_wait_s") +
                       " has an effect only with rlcore.replay");
  if (s.reward.stored && !s.val_files.empty())
    throw config_error("rlcore.replay_scores=True: nothing scores the answers of a validation; pass data.val_files=[]");
  s.events_dir = opt.find<std::string>("rlcore.tensorboard_dir").value_or("");
  s.export_path = opt.find<std::string>("rlcore.export_path").value_or("");
  s.export_type = opt.get<std::string>("rlcore.export_type");
  s.loggers = opt.list("trainer.logger");
  s.console = console_style_of(opt);
  s.save_freq = opt.get<std::int64_t>("trainer.save_freq");
  s.test_freq = opt.get<std::int64_t>("trainer.test_freq");
  s.keep = opt.find<std::int64_t>("trainer.max_actor_ckpt_to_keep").value_or(0);
  s.critic_warmup = opt.get<std::int64_t>("trainer.critic_warmup");
  s.val_before_train = opt.get<bool>("trainer.val_before_train");
  s.val_only = opt.get<bool>("trainer.val_only");
  s.report = opt.get<bool>("rlcore.report");
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE policy_settings read_settings(const options& opt) {
  policy_settings s;
  detail::read_data_settings(s, opt);
  detail::read_model_settings(s, opt);
  detail::read_rollout_settings(s, opt);
  detail::read_objective_settings(s, opt);
  detail::read_optimizer_settings(s, opt);
  detail::read_run_settings(s, opt);
  return s;
}

}  // namespace train
RLCORE_END
#endif
