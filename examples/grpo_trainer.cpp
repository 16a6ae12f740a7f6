// Group Relative Policy Optimization (Shao et al. 2024, "DeepSeekMath") with the command line of verl's main_ppo or of
// OpenRLHF's train_ppo_ray:
//   build/bin/grpo_trainer data.train_files=train.parquet data.val_files=test.parquet actor_rollout_ref.model.path=...
//   build/bin/grpo_trainer --pretrain ... --prompt_data ... --advantage_estimator group_norm ...
#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/trainer/policy/parts.hpp"

namespace {

using namespace rlcore;

void train(any_device& device, const trainer::options& options, parallel::any_communicator& world) {
  // The algorithm. Advantage: (reward - mean) / deviation of a prompt's answers (algorithm.adv_estimator=grpo). Loss:
  // the clipped ratio to the policy that sampled, plus a KL to the reference (use_kl_loss), less the entropy.
  const trainer::any_estimator group_relative = trainer::read_estimator(options);
  const trainer::any_policy_loss clipped = trainer::make_policy_loss(trainer::read_policy_loss(options));
  const trainer::composed_algorithm grpo{group_relative, clipped};

  // What it works on: prompts, tokenizer and rewards; the policy and the models beside it; where the run stands.
  const trainer::team ranks(options, &world);
  trainer::policy_inputs inputs = trainer::open_policy_inputs(device, options, ranks);
  trainer::policy_models models(device, options, inputs, trainer::needs_of(grpo), ranks);
  trainer::policy_run run(options, inputs, models, ranks);

  while (run.next_step()) {
    if (!run.sample()) break;    // rollout.n answers to each prompt, scored by the reward
    run.provide(grpo.inputs());  // log-probs of the reference; what another estimator may declare
    run.advantages(grpo);        // within each group of answers
    run.update_critic();         // only another estimator has one
    run.update_actor(grpo);      // mini-batches, one optimizer step each
    run.finish_step();           // validation, checkpoint, log
  }
  run.finish();  // the report, and where everything is
}

}  // namespace

int main(int argc, char** argv) {
  return rlcore::trainer::trainer_main(argc, argv, rlcore::trainer::grpo_trainer_registry(), train);
}
