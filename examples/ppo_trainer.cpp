// Proximal Policy Optimization (Schulman et al. 2017; Ouyang et al. 2022) with a critic, with the command line of
// verl's main_ppo or of OpenRLHF's train_ppo_ray:
//   build/bin/ppo_trainer data.train_files=... actor_rollout_ref.model.path=... critic.model.path=...
//   build/bin/ppo_trainer --pretrain ... --prompt_data ... --advantage_estimator gae
#include "rlcore/trainer/policy/parts.hpp"

namespace {

using namespace rlcore;

void train(any_device& device, const trainer::options& options, const trainer::team& ranks) {
  // The algorithm. Advantage: generalised advantage estimation over the critic's values, whitened over the tokens of
  // the step (algorithm.adv_estimator=gae). Loss: the clipped ratio to the policy that sampled.
  const trainer::any_estimator gae = trainer::read_estimator(options);
  const trainer::any_policy_loss clipped = trainer::read_loss(options);
  const trainer::any_algorithm ppo = trainer::composed_algorithm{gae, clipped};

  // Inputs and state: prompts, tokenizer and rewards; the policy and further models; the position of the run.
  const auto inputs = trainer::open_policy_inputs(device, options, ranks);
  const auto models = trainer::open_policy_models(device, options, *inputs, ppo, ranks);
  const auto run = trainer::open_policy_run(options, *inputs, *models, ranks);

  while (run->next_step()) {
    if (!run->sample()) break;   // answers to each prompt, scored by the reward
    run->provide(ppo.inputs());  // the critic's values, the log-probs of the reference
    run->advantages(ppo);        // the KL penalty of each token first, where it is in the reward; then GAE
    run->update_critic();        // clipped squared error to the returns
    run->update_actor(ppo);      // from step trainer.critic_warmup on
    run->finish_step();          // validation, checkpoint, log
  }
  run->finish();  // the report, and the locations of all files
}

}  // namespace

int main(int argc, char** argv) {
  return rlcore::trainer::trainer_main(argc, argv, rlcore::trainer::ppo_trainer_registry(), train);
}
