// Group Relative Policy Optimization (Shao et al. 2024, "DeepSeekMath") with the command line of verl's main_ppo or of
// OpenRLHF's train_ppo_ray:
//   build/bin/grpo_trainer data.train_files=train.parquet data.val_files=test.parquet actor_rollout_ref.model.path=...
//   build/bin/grpo_trainer --pretrain ... --prompt_data ... --advantage_estimator group_norm ...
#include "rlcore/train/policy/parts.hpp"

namespace {

using namespace rlcore;

/// Advantage: (reward - mean) / deviation of a prompt's answers. Loss: the ratio to the policy that sampled, clipped to
/// 1 +- clip_ratio and bounded by clip_ratio_c where the advantage is negative, + kl_loss_coef KL to the reference
/// (use_kl_loss), - entropy_coeff entropy; averaged by loss_agg_mode, over all tokens by default.
train::any_algorithm make_grpo(const train::options& options) {
  const train::policy_loss_settings s = train::read_policy_loss(options);
  train::any_algorithm grpo =
      algorithm{group_relative{.normalize_by_std = options.get<bool>("algorithm.norm_adv_by_std_in_grpo")},
                sum{dual_clip{.low = s.clip.clip_low, .high = s.clip.clip_high, .bound = s.clip.clip_c},
                    when{s.use_kl, scaled{s.kl_coef, s.kl_divergence()}},
                    when{s.entropy_coeff != 0, entropy_bonus(s.entropy_coeff)}},
                s.aggregation};
  // Another algorithm.adv_estimator or policy_loss.loss_mode takes the place of the advantage or the loss above.
  train::replace_named_parts(grpo, options, {.adv_estimator = "grpo", .loss_mode = "vanilla"});
  return grpo;
}

void train_grpo(any_device& device, const train::options& options, const train::team& ranks) {
  const train::any_algorithm grpo = make_grpo(options);
  const auto inputs = train::open_policy_inputs(device, options, ranks);                 // prompts, tokenizer, rewards
  const auto models = train::open_policy_models(device, options, *inputs, grpo, ranks);  // policy, reference
  const auto run = train::open_policy_run(options, *inputs, *models, ranks);             // position, checkpoints, log

  while (run->next_step()) {
    if (!run->sample()) break;    // rollout.n answers to each prompt, scored by the reward
    run->provide(grpo.inputs());  // log-probs of the reference; what another estimator reads
    run->penalise_rewards();      // only with algorithm.use_kl_in_reward: the KL is in the loss
    run->advantages(grpo);        // each answer against its group
    run->update_critic();         // only with adv_estimator=gae: GRPO has no critic
    run->update_actor(grpo);      // mini-batches, one optimizer step each
    run->finish_step();           // validation, checkpoint, log
  }
  run->finish();  // the report, and the locations of all files
}

}  // namespace

int main(int argc, char** argv) {
  return rlcore::train::trainer_main(argc, argv, rlcore::train::grpo_trainer_registry(), train_grpo);
}
