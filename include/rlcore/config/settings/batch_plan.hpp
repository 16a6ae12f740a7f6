// Batch plan: the numbers that follow from the batch settings and the size of the data set.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/async_options.hpp"
#include "rlcore/config/settings/rank_options.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace train {

/// Counts of one run. Trajectory: one sampled response with its prompt.
struct batch_plan {
  std::int64_t dataset_prompts = 0;
  std::int64_t prompts_per_step = 0;   ///< trained on per step
  std::int64_t prompts_per_round = 0;  ///< sampled together; equal to prompts_per_step without dynamic sampling
  std::int64_t samples_per_prompt = 0;
  std::int64_t trajectories_per_step = 0;
  std::int64_t mini_batch_prompts = 0;  ///< prompts of one optimizer update, at most prompts_per_step
  std::int64_t trajectories_per_update = 0;
  std::int64_t updates_per_step = 0;
  std::int64_t micro_batch_trajectories = 0;  ///< largest number in one forward; 0: no limit
  std::int64_t micro_batch_tokens = 0;        ///< largest number in one forward; 0: no limit
  std::int64_t micro_batches_per_update = 0;  ///< 0: depends on the lengths
  std::int64_t ref_trajectories = 0;          ///< largest number in one forward of the reference; 0: no limit
  std::int64_t ref_tokens = 0;
  std::int64_t old_trajectories = 0;  ///< the same for recomputed old log-probs
  std::int64_t old_tokens = 0;
  std::int64_t steps_per_epoch = 0;  ///< with dynamic sampling: rounds
  std::int64_t epochs = 0;
  std::int64_t total_steps = 0;
  std::int64_t total_rounds = 0;                       ///< until the data are exhausted; 0: no limit
  std::int64_t warmup_steps = 0, scheduled_steps = 0;  ///< of the learning rate: in updates with lr_per_update
  bool lr_per_update = false;
  std::int64_t prompts_in_play = 0;   ///< with asynchronous training: begun and not trained on, at most
  std::int64_t steps_per_copy = 0;    ///< with asynchronous training: between two copies of the weights to sampling
  bool dynamic_sampling = false;      ///< a step takes as many rounds as it needs
  std::int64_t devices = 1;           ///< ranks that share the work; changes no result
  std::vector<std::string> warnings;  ///< differences from verl's behaviour

  /// Aligned lines, printed before the first step.
  std::string table() const;
};

namespace detail {

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

/// Trajectories per forward: the setting per device, or the deprecated global setting divided by the devices.
inline std::int64_t micro_size(const options& opt, const std::string& name, std::int64_t ranks) {
  if (const auto per_gpu = opt.find<std::int64_t>(name + "_per_gpu")) return *per_gpu;
  if (const auto global = opt.find<std::int64_t>(name)) return std::max<std::int64_t>(1, *global / ranks);
  return 0;
}

/// <prefix>lr_warmup_steps; if that is 0 (since verl 0.8.0) or negative, the share <prefix>lr_warmup_steps_ratio of all
/// steps.
std::int64_t warmup_steps(const options& opt, const std::string& prefix, std::int64_t total);

void warn_about_mini_batch(batch_plan& plan, const options& opt, std::int64_t ranks);

/// "name=value", as messages say it.
inline std::string setting_text(const options& opt, const std::string& name) {
  return name + "=" + std::to_string(opt.get<std::int64_t>(name));
}

/// Prompts, trajectories and updates of a step.
void plan_step(batch_plan& plan, const options& opt);

/// The size of a forward. A global setting is divided by `ranks`; a token limit is for `sequence` ranks together.
void plan_micro_batches(batch_plan& plan, const options& opt, std::int64_t ranks, std::int64_t sequence);

/// Epochs, steps and the learning rate's schedule. Throws config_error if the data set does not fill one step.
void plan_steps(batch_plan& plan, const options& opt);

void warn_about_long_trajectories(batch_plan& plan, const options& opt);

}  // namespace detail

/// Plans for `ranks_here` ranks, or for those of the command line. Throws config_error if the data set does not fill
/// one step.
batch_plan make_batch_plan(const options& opt, std::int64_t dataset_prompts, std::int64_t ranks_here = 1);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
#include "rlcore/config/algorithm/verl_version.hpp"

RLCORE_BEGIN
namespace train::detail {

RLCORE_INLINE std::int64_t warmup_steps(const options& opt, const std::string& prefix, std::int64_t total) {
  const std::int64_t steps = opt.get<std::int64_t>(prefix + "lr_warmup_steps");
  if (steps > 0 || (steps == 0 && read_verl_version(opt) < verl::version::v0_8_0)) return steps;
  const double share = opt.get<double>(prefix + "lr_warmup_steps_ratio") * static_cast<double>(total);
  return static_cast<std::int64_t>(opt.get<bool>("rlcore.round_warmup_up") ? std::ceil(share - 1e-9) : share);
}

RLCORE_INLINE void warn_about_mini_batch(batch_plan& plan, const options& opt, std::int64_t ranks) {
  const std::int64_t wanted = opt.get<std::int64_t>("actor_rollout_ref.actor.ppo_mini_batch_size");
  const std::int64_t micro = plan.micro_batch_trajectories, n = plan.samples_per_prompt;
  const bool is_set = opt.is_set("actor_rollout_ref.actor.ppo_mini_batch_size");
  if (wanted > plan.prompts_per_step && is_set) {
    std::string line = "ppo_mini_batch_size=" + std::to_string(wanted) +
                       " is larger than train_batch_size=" + std::to_string(plan.prompts_per_step) + ": taken as " +
                       std::to_string(plan.mini_batch_prompts) +
                       ", one update per pass. verl refuses this (since March 2025)";
    const std::int64_t per_rank = wanted * n / ranks, held = ceil_div(plan.trajectories_per_step, ranks);
    if (micro > 0 && per_rank / micro > ceil_div(held, micro))
      line += "; before, it divided the gradient by " + std::to_string(per_rank / micro) +
              " micro-batches where there was " + std::to_string(ceil_div(held, micro));
    plan.warnings.push_back(line);
  }
  if (plan.prompts_per_step % plan.mini_batch_prompts != 0)
    plan.warnings.push_back("train_batch_size=" + std::to_string(plan.prompts_per_step) +
                            " does not divide by ppo_mini_batch_size=" + std::to_string(plan.mini_batch_prompts) +
                            ": the last update of each pass has only " +
                            std::to_string(plan.prompts_per_step % plan.mini_batch_prompts) + " prompts");
  if (plan.devices == 1 || plan.micro_batch_tokens > 0) return;
  const bool megatron = read_strategy(opt).strategy == "megatron";
  if (const std::int64_t shares = megatron ? ranks : plan.devices; plan.trajectories_per_step % shares != 0)
    plan.warnings.push_back("train_batch_size * rollout.n = " + std::to_string(plan.trajectories_per_step) +
                            " does not divide by the " + std::to_string(shares) +
                            (megatron ? " data ranks" : " ranks") +
                            "; verl would refuse this, here some of them get more");
  const std::int64_t per_rank = wanted * n / ranks;
  if (micro > 0 && (per_rank == 0 || per_rank % micro != 0))
    plan.warnings.push_back(
        "ppo_mini_batch_size * rollout.n / devices = " + std::to_string(per_rank) +
        " does not divide by ppo_micro_batch_size_per_gpu=" + std::to_string(micro) +
        "; verl would refuse this, here it is an upper bound and the loss is divided by the true count");
}

RLCORE_INLINE void plan_step(batch_plan& plan, const options& opt) {
  const std::string actor = "actor_rollout_ref.actor.", samples = "actor_rollout_ref.rollout.n";
  plan.dynamic_sampling = opt.get<bool>("algorithm.filter_groups.enable");
  plan.prompts_per_round = opt.get<std::int64_t>("data.gen_batch_size");
  plan.prompts_per_step =
      plan.dynamic_sampling ? opt.get<std::int64_t>("data.train_batch_size") : plan.prompts_per_round;
  plan.samples_per_prompt = opt.get<std::int64_t>(samples);
  plan.trajectories_per_step = product(plan.prompts_per_step, plan.samples_per_prompt, setting_text(opt, samples));
  product(plan.prompts_per_round, plan.samples_per_prompt, setting_text(opt, samples));
  plan.mini_batch_prompts = std::min(opt.get<std::int64_t>(actor + "ppo_mini_batch_size"), plan.prompts_per_step);
  plan.trajectories_per_update = plan.mini_batch_prompts * plan.samples_per_prompt;
  plan.updates_per_step = product(ceil_div(plan.prompts_per_step, plan.mini_batch_prompts),
                                  opt.get<std::int64_t>(actor + "ppo_epochs"), setting_text(opt, actor + "ppo_epochs"));
}

RLCORE_INLINE void plan_micro_batches(batch_plan& plan, const options& opt, std::int64_t ranks, std::int64_t sequence) {
  const std::string actor = "actor_rollout_ref.actor.", rollout = "actor_rollout_ref.rollout.",
                    ref = "actor_rollout_ref.ref.";
  const auto chunk = [&](const std::string& micro, const std::string& dynamic, const std::string& tokens,
                         std::int64_t& trajectories, std::int64_t& limit) {
    if (opt.get<bool>(dynamic)) {
      limit = opt.get<std::int64_t>(tokens) * sequence;
    } else {
      trajectories = micro_size(opt, micro, ranks);
    }
  };
  chunk(actor + "ppo_micro_batch_size", actor + "use_dynamic_bsz", actor + "ppo_max_token_len_per_gpu",
        plan.micro_batch_trajectories, plan.micro_batch_tokens);
  chunk(ref + "log_prob_micro_batch_size", ref + "log_prob_use_dynamic_bsz", ref + "log_prob_max_token_len_per_gpu",
        plan.ref_trajectories, plan.ref_tokens);
  chunk(rollout + "log_prob_micro_batch_size", rollout + "log_prob_use_dynamic_bsz",
        rollout + "log_prob_max_token_len_per_gpu", plan.old_trajectories, plan.old_tokens);
  if (plan.micro_batch_tokens == 0)
    plan.micro_batches_per_update =
        plan.micro_batch_trajectories == 0 ? 1 : ceil_div(plan.trajectories_per_update, plan.micro_batch_trajectories);
}

RLCORE_INLINE void plan_steps(batch_plan& plan, const options& opt) {
  plan.steps_per_epoch = plan.dataset_prompts / plan.prompts_per_round;
  if (plan.steps_per_epoch == 0)
    throw config_error((trains_asynchronously(opt)          ? "async_training.require_batches x ppo_mini_batch_size = "
                        : opt.is_set("data.gen_batch_size") ? "data.gen_batch_size="
                                                            : "data.train_batch_size=") +
                       std::to_string(plan.prompts_per_round) + ": the training set has only " +
                       std::to_string(plan.dataset_prompts) + " prompts, not one full " +
                       (plan.dynamic_sampling ? "round" : "step"));
  const auto fixed = opt.find<std::int64_t>("trainer.total_training_steps");
  plan.total_steps = fixed ? *fixed
                           : product(plan.steps_per_epoch, opt.get<std::int64_t>("trainer.total_epochs"),
                                     setting_text(opt, "trainer.total_epochs"));
  if (const async_settings async = read_async_training(opt); async.enabled) {
    const auto prompts = opt.find<std::int64_t>("rollout.total_rollout_steps");
    if (prompts && !fixed) plan.total_steps = std::min(plan.total_steps, *prompts / plan.prompts_per_step);
    plan.steps_per_copy = async.steps_per_copy;
    plan.prompts_in_play = async.in_play(product(plan.prompts_per_step, async.steps_per_copy,
                                                 setting_text(opt, "async_training.trigger_parameter_sync_step")));
  }
  plan.epochs = fixed ? ceil_div(*fixed, plan.steps_per_epoch) : opt.get<std::int64_t>("trainer.total_epochs");
  if (plan.dynamic_sampling && !fixed) plan.total_rounds = plan.total_steps;
  if (!plan.dynamic_sampling && plan.prompts_per_round != opt.get<std::int64_t>("data.train_batch_size"))
    plan.warnings.push_back("without algorithm.filter_groups.enable=True a step trains on all gen_batch_size=" +
                            std::to_string(plan.prompts_per_round) + " prompts, as in verl; train_batch_size=" +
                            std::to_string(opt.get<std::int64_t>("data.train_batch_size")) + " has no effect");
  plan.lr_per_update = opt.get<bool>("rlcore.lr_per_update");
  plan.scheduled_steps = product(plan.total_steps, plan.lr_per_update ? plan.updates_per_step : 1,
                                 "total steps x updates per step (rlcore.lr_per_update)");
  plan.warmup_steps = warmup_steps(opt, "actor_rollout_ref.actor.optim.", plan.scheduled_steps);
}

RLCORE_INLINE void warn_about_long_trajectories(batch_plan& plan, const options& opt) {
  const std::int64_t width =
      opt.get<std::int64_t>("data.max_prompt_length") + opt.get<std::int64_t>("data.max_response_length");
  if (plan.micro_batch_tokens > 0 && plan.micro_batch_tokens < width)
    plan.warnings.push_back("ppo_max_token_len_per_gpu allows " + std::to_string(plan.micro_batch_tokens) +
                            " tokens, prompt and response may have " + std::to_string(width) +
                            "; verl would refuse this, here a longer trajectory goes alone");
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE batch_plan make_batch_plan(const options& opt, std::int64_t dataset_prompts, std::int64_t ranks_here) {
  batch_plan plan;
  plan.dataset_prompts = dataset_prompts;
  detail::plan_step(plan, opt);
  const std::int64_t asked = asked_ranks(opt);
  plan.devices = asked > 0 ? asked : ranks_here;
  const std::int64_t sequence =
      opt.find<std::int64_t>("actor_rollout_ref.actor.ulysses_sequence_parallel_size").value_or(1);
  const detail::strategy_keys k = detail::read_strategy(opt);
  const std::int64_t ranks =
      std::max<std::int64_t>(1, plan.devices / (k.tensor.ranks * k.context.ranks * k.pipeline.ranks));
  detail::plan_micro_batches(plan, opt, ranks, sequence);
  detail::plan_steps(plan, opt);
  detail::warn_about_mini_batch(plan, opt, ranks);
  detail::warn_about_long_trajectories(plan, opt);
  return plan;
}

RLCORE_INLINE std::string batch_plan::table() const {
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  const auto counted = [](std::int64_t n, const char* one, const char* several) {
    return std::to_string(n) + " " + (n == 1 ? one : several);
  };
  std::vector<std::pair<std::string, std::pair<std::string, std::string>>> rows;
  const auto row = [&](std::string name, std::string count, std::string remark) {
    rows.push_back({std::move(name), {std::move(count), std::move(remark)}});
  };
  row("training prompts", number(dataset_prompts), "");
  row("trajectories per step", number(trajectories_per_step),
      counted(prompts_per_step, "prompt", "prompts") + " x " + counted(samples_per_prompt, "sample", "samples"));
  row("updates per step", number(updates_per_step),
      "of " + counted(trajectories_per_update, "trajectory", "trajectories") + " (" +
          counted(mini_batch_prompts, "prompt", "prompts") + ")");
  if (micro_batch_tokens > 0)
    row("tokens per micro-batch", number(micro_batch_tokens), "at most, which saves memory");
  else if (micro_batch_trajectories > 0)
    row("trajectories per micro-batch", number(micro_batch_trajectories), "at most, which saves memory");
  if (dynamic_sampling) row("prompts per round", number(prompts_per_round), "until enough groups differ");
  if (prompts_in_play > 0)
    row("prompts in play", number(prompts_in_play),
        "a copy of the weights every " + counted(steps_per_copy, "step", "steps"));
  const std::int64_t left_out = dataset_prompts % prompts_per_round;
  row(dynamic_sampling ? "rounds per epoch" : "steps per epoch", number(steps_per_epoch),
      left_out == 0 ? ""
                    : number(left_out) + (left_out == 1 ? " prompt is" : " prompts are") + " left out of each epoch");
  row("total steps", number(total_steps),
      (total_rounds > 0 ? "at most, " : "") + number(epochs) + (epochs == 1 ? " epoch" : " epochs"));
  row("warm-up steps", number(warmup_steps), lr_per_update ? "counted in updates" : "");
  std::size_t name_width = 0, count_width = 0;
  for (const auto& [name, rest] : rows)
    name_width = std::max(name_width, name.size()), count_width = std::max(count_width, rest.first.size());
  std::string out;
  for (const auto& [name, rest] : rows) {
    out += "  " + name + std::string(name_width - name.size() + 2 + count_width - rest.first.size(), ' ') + rest.first;
    out += rest.second.empty() ? "\n" : "  " + rest.second + "\n";
  }
  return out;
}

}  // namespace train
RLCORE_END
#endif
