// Proximal Policy Optimization (Schulman et al. 2017; Ouyang et al. 2022) with a critic, with the command line of
// verl's main_ppo or of OpenRLHF's train_ppo_ray:
//   build/bin/ppo_trainer data.train_files=... actor_rollout_ref.model.path=... critic.model.path=...
//   build/bin/ppo_trainer --pretrain ... --prompt_data ... --advantage_estimator gae
#include "rlcore/train/policy/parts.hpp"

namespace {

using namespace rlcore;

/// Advantage: generalised advantage estimation over the critic's values (algorithm.gamma and lam), whitened over the
/// tokens of the step. Loss: the ratio to the policy that sampled, clipped to 1 +- clip_ratio and bounded by
/// clip_ratio_c, - entropy_coeff entropy; averaged by loss_agg_mode. The critic's loss is a clipped squared error
/// (critic.cliprange_value).
train::any_algorithm make_ppo(const train::options& options) {
  const train::policy_loss_settings s = train::read_policy_loss(options);
  train::any_algorithm ppo = algorithm{
      whitened{gae{.gamma = options.get<double>("algorithm.gamma"), .lambda = options.get<double>("algorithm.lam")}},
      sum{dual_clip{.low = s.clip.clip_low, .high = s.clip.clip_high, .bound = s.clip.clip_c},
          when{s.use_kl, scaled{s.kl_coef, s.kl_divergence()}},
          when{s.entropy_coeff != 0, entropy_bonus(s.entropy_coeff)}},
      s.aggregation};
  // Another algorithm.adv_estimator or policy_loss.loss_mode takes the place of the advantage or the loss above.
  train::replace_named_parts(ppo, options, {.adv_estimator = "gae", .loss_mode = "vanilla"});
  return ppo;
}

void train_ppo(any_device& device, const train::options& options, const train::team& ranks) {
  const train::any_algorithm ppo = make_ppo(options);
  const auto inputs = train::open_policy_inputs(device, options, ranks);                // prompts, tokenizer, rewards
  const auto models = train::open_policy_models(device, options, *inputs, ppo, ranks);  // policy, critic, reference
  const auto run = train::open_policy_run(options, *inputs, *models, ranks);            // position, checkpoints, log

  while (run->next_step()) {
    if (!run->sample()) break;   // an answer to each prompt, scored by the reward
    run->provide(ppo.inputs());  // the critic's value of each token, log-probs of the reference
    run->penalise_rewards();     // with algorithm.use_kl_in_reward: - kl_ctrl.kl_coef KL at each token
    run->advantages(ppo);        // of each token
    run->update_critic();        // towards the returns
    run->update_actor(ppo);      // from step trainer.critic_warmup on
    run->finish_step();          // validation, checkpoint, log
  }
  run->finish();  // the report, and the locations of all files
}

}  // namespace

int main(int argc, char** argv) {
  return rlcore::train::trainer_main(argc, argv, rlcore::train::ppo_trainer_registry(), train_ppo);
}
