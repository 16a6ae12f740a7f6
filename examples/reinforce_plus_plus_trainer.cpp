// REINFORCE++ (Hu 2025): policy gradients without a critic, normalised over the batch, with the command line of verl's
// main_ppo or of OpenRLHF's train_ppo_ray:
//   build/bin/reinforce_plus_plus_trainer data.train_files=... actor_rollout_ref.model.path=... ...
#include "rlcore/trainer/policy/parts.hpp"

namespace {

using namespace rlcore;

void train(any_device& device, const trainer::options& options, const trainer::team& ranks) {
  // The algorithm. Advantage: the discounted rewards from each token on, whitened over all tokens of the step
  // (algorithm.adv_estimator=reinforce_plus_plus). Loss: the clipped ratio to the policy that sampled.
  const trainer::any_estimator whitened_returns = trainer::read_estimator(options);
  const trainer::any_policy_loss clipped = trainer::read_loss(options);
  const trainer::any_algorithm reinforce = trainer::composed_algorithm{whitened_returns, clipped};

  // Inputs and state: prompts, tokenizer and rewards; the policy and further models; the position of the run.
  const auto inputs = trainer::open_policy_inputs(device, options, ranks);
  const auto models = trainer::open_policy_models(device, options, *inputs, reinforce, ranks);
  const auto run = trainer::open_policy_run(options, *inputs, *models, ranks);

  while (run->next_step()) {
    if (!run->sample()) break;         // answers to each prompt, scored by the reward
    run->provide(reinforce.inputs());  // reference log-probs; inputs of alternative estimators
    run->advantages(reinforce);        // the KL penalty of each token first, where it is in the reward
    run->update_critic();              // only with an alternative estimator
    run->update_actor(reinforce);      // mini-batches, one optimizer step each
    run->finish_step();                // validation, checkpoint, log
  }
  run->finish();  // the report, and the locations of all files
}

}  // namespace

int main(int argc, char** argv) {
  return rlcore::trainer::trainer_main(argc, argv, rlcore::trainer::reinforce_plus_plus_trainer_registry(), train);
}
