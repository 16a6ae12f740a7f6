// REINFORCE++ (Hu 2025): policy gradients without a critic, normalised over the batch, with the command line of verl's
// main_ppo or of OpenRLHF's train_ppo_ray:
//   build/bin/reinforce_plus_plus_trainer data.train_files=... actor_rollout_ref.model.path=... ...
#include "rlcore/train/policy/parts.hpp"

namespace {

using namespace rlcore;

/// Advantage: the rewards from each token on, discounted by algorithm.gamma, whitened over all tokens of the step; the
/// KL to the reference is in these rewards (algorithm.use_kl_in_reward). Loss: the ratio to the policy that sampled,
/// clipped to 1 +- clip_ratio and bounded by clip_ratio_c, - entropy_coeff entropy; averaged by loss_agg_mode.
train::any_algorithm make_reinforce_plus_plus(const train::options& options) {
  const train::policy_loss_settings s = train::read_policy_loss(options);
  train::any_algorithm reinforce = algorithm{
      reinforce_plus_plus{.gamma = options.get<double>("algorithm.gamma"), .turns = verl::turns_of_returns(s.version)},
      sum{dual_clip{.low = s.clip.clip_low, .high = s.clip.clip_high, .bound = s.clip.clip_c},
          when{s.use_kl, scaled{s.kl_coef, s.kl_divergence()}},
          when{s.entropy_coeff != 0, entropy_bonus(s.entropy_coeff)}},
      s.aggregation};
  // Another algorithm.adv_estimator or policy_loss.loss_mode takes the place of the advantage or the loss above.
  train::replace_named_parts(reinforce, options, {.adv_estimator = "reinforce_plus_plus", .loss_mode = "vanilla"});
  return reinforce;
}

void train_reinforce_plus_plus(any_device& device, const train::options& options, const train::team& ranks) {
  const train::any_algorithm reinforce = make_reinforce_plus_plus(options);
  const auto inputs = train::open_policy_inputs(device, options, ranks);  // prompts, tokenizer, rewards
  const auto models = train::open_policy_models(device, options, *inputs, reinforce, ranks);  // policy, reference
  const auto run = train::open_policy_run(options, *inputs, *models, ranks);  // position, checkpoints, log

  while (run->next_step()) {
    if (!run->sample()) break;         // answers to each prompt, scored by the reward
    run->provide(reinforce.inputs());  // log-probs of the reference; what another estimator reads
    run->penalise_rewards();           // - kl_ctrl.kl_coef KL at each token
    run->advantages(reinforce);        // returns, whitened over the batch
    run->update_critic();              // only with adv_estimator=gae: REINFORCE++ has no critic
    run->update_actor(reinforce);      // mini-batches, one optimizer step each
    run->finish_step();                // validation, checkpoint, log
  }
  run->finish();  // the report, and the locations of all files
}

}  // namespace

int main(int argc, char** argv) {
  return rlcore::train::trainer_main(argc, argv, rlcore::train::reinforce_plus_plus_trainer_registry(),
                                     train_reinforce_plus_plus);
}
