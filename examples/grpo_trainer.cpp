// Group Relative Policy Optimization (Shao et al. 2024, "DeepSeekMath") with the command line of verl's main_ppo or of
// OpenRLHF's train_ppo_ray:
//   build/bin/grpo_trainer data.train_files=train.parquet data.val_files=test.parquet actor_rollout_ref.model.path=...
//   build/bin/grpo_trainer --pretrain ... --prompt_data ... --advantage_estimator group_norm ...
#include "rlcore/trainer/policy/parts.hpp"

namespace {

using namespace rlcore;

void train(any_device& device, const trainer::options& options, const trainer::team& ranks) {
  // The algorithm. Advantage: (reward - mean) / deviation of a prompt's answers (algorithm.adv_estimator=grpo). Loss:
  // the clipped ratio to the policy that sampled, plus a KL to the reference (use_kl_loss), less the entropy.
  const trainer::any_estimator group_relative = trainer::read_estimator(options);
  const trainer::any_policy_loss clipped = trainer::read_loss(options);
  const trainer::any_algorithm grpo = trainer::composed_algorithm{group_relative, clipped};

  // Inputs and state: prompts, tokenizer and rewards; the policy and further models; the position of the run.
  const auto inputs = trainer::open_policy_inputs(device, options, ranks);
  const auto models = trainer::open_policy_models(device, options, *inputs, grpo, ranks);
  const auto run = trainer::open_policy_run(options, *inputs, *models, ranks);

  while (run->next_step()) {
    if (!run->sample()) break;    // rollout.n answers to each prompt, scored by the reward
    run->provide(grpo.inputs());  // reference log-probs; inputs of alternative estimators
    run->advantages(grpo);        // within each group of answers
    run->update_critic();         // only with an alternative estimator
    run->update_actor(grpo);      // mini-batches, one optimizer step each
    run->finish_step();           // validation, checkpoint, log
  }
  run->finish();  // the report, and the locations of all files
}

}  // namespace

int main(int argc, char** argv) {
  return rlcore::trainer::trainer_main(argc, argv, rlcore::trainer::grpo_trainer_registry(), train);
}
