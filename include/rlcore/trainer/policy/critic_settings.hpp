// Critic settings (critic.*), read once from the command line.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rlcore/config/options.hpp"
#include "rlcore/config/settings/batch_plan.hpp"
#include "rlcore/config/settings/model_options.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/optim/schedule.hpp"
#include "rlcore/trainer/policy/settings.hpp"

RLCORE_BEGIN
namespace trainer {

/// How the critic is trained; read_critic_settings() fills it in.
struct critic_settings {
  std::string model_path;  ///< empty: the actor's
  bool recompute_activations = true;
  double lr = 1e-5, grad_clip = 1, cliprange_value = 0.5;
  optim::adamw_settings adamw;
  optim::schedule schedule;
  any_aggregation aggregation;
  std::int64_t mini_trajectories = 0;                     ///< of one update
  std::int64_t micro_trajectories = 0, micro_tokens = 0;  ///< largest number in one forward and backward; 0: no limit
  std::int64_t forward_trajectories = 0, forward_tokens = 0;  ///< the same where values are only read
  std::int64_t epochs_per_step = 1, keep = 0;
  bool shuffle_mini_batches = false, decay_norms_and_biases = true;
  std::optional<nn::lora_settings> lora = {};
  bool freeze_vision_tower = false;

  /// The number of updates of a step with `trajectories` trajectories.
  std::int64_t updates(std::int64_t trajectories) const noexcept {
    return (trajectories + mini_trajectories - 1) / mini_trajectories * epochs_per_step;
  }
};

/// Empty if the run has no critic: decided by critic.enable, and if that is null, by whether the advantages read
/// values. Throws config_error if they do and critic.enable is False.
std::optional<critic_settings> read_critic_settings(const options& opt, const batch_plan& plan, bool reads_values);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINER)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE std::optional<critic_settings> read_critic_settings(const options& opt, const batch_plan& plan,
                                                                  bool reads_values) {
  const bool wanted = opt.find<bool>("critic.enable").value_or(reads_values);
  if (reads_values && !wanted)
    throw config_error("critic.enable=False: algorithm.adv_estimator=" +
                       opt.get<std::string>("algorithm.adv_estimator") + " reads the values of a critic");
  if (!wanted) return std::nullopt;
  critic_settings s;
  s.model_path = opt.find<std::string>("critic.model.path").value_or("");
  s.recompute_activations = opt.get<bool>("critic.model.enable_gradient_checkpointing");
  s.lr = opt.get<double>("critic.optim.lr");
  s.adamw = read_adamw(opt, "critic.optim.");
  s.schedule = read_schedule(opt, "critic.optim.");
  s.decay_norms_and_biases = opt.get<bool>("rlcore.decay_norms_and_biases");
  s.grad_clip = opt.get<double>("critic.grad_clip");
  s.cliprange_value = opt.get<double>("critic.cliprange_value");
  s.aggregation = read_aggregation(opt, "critic.loss_agg_mode",
                                   static_cast<double>(opt.get<std::int64_t>("data.max_response_length")));
  s.mini_trajectories =
      std::min(opt.get<std::int64_t>("critic.ppo_mini_batch_size"), plan.prompts_per_step) * plan.samples_per_prompt;
  const std::int64_t sequence = opt.get<std::int64_t>("critic.ulysses_sequence_parallel_size");
  if (opt.get<bool>("critic.use_dynamic_bsz")) {
    s.micro_tokens = opt.get<std::int64_t>("critic.ppo_max_token_len_per_gpu") * sequence;
    s.forward_tokens = opt.get<std::int64_t>("critic.forward_max_token_len_per_gpu") * sequence;
  } else {
    const std::int64_t ranks = std::max<std::int64_t>(1, plan.devices / sequence);
    s.micro_trajectories = detail::micro_size(opt, "critic.ppo_micro_batch_size", ranks);
    s.forward_trajectories = detail::micro_size(opt, "critic.forward_micro_batch_size", ranks);
    if (s.forward_trajectories == 0) s.forward_trajectories = s.micro_trajectories;
  }
  s.epochs_per_step = opt.get<std::int64_t>("critic.ppo_epochs");
  s.shuffle_mini_batches = opt.get<bool>("critic.shuffle");
  s.lora = read_lora(opt, "critic.model.", static_cast<std::uint64_t>(opt.get<std::int64_t>("rlcore.seed")));
  s.freeze_vision_tower = opt.get<bool>("critic.model.freeze_vision_tower");
  s.keep = opt.find<std::int64_t>("trainer.max_critic_ckpt_to_keep").value_or(0);
  s.schedule.total_steps =
      plan.total_steps * (opt.get<bool>("rlcore.lr_per_update") ? s.updates(plan.trajectories_per_step) : 1);
  s.schedule.warmup_steps = detail::warmup_steps(opt, "critic.optim.", s.schedule.total_steps);
  return s;
}

}  // namespace trainer
RLCORE_END
#endif
