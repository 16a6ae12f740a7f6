// DAPO (Yu et al. 2025, "DAPO: an open-source LLM reinforcement learning system at scale") with verl's command line:
//   build/bin/dapo_trainer data.train_files=train.parquet data.val_files=test.parquet actor_rollout_ref.model.path=...
//   ...
#include "rlcore/trainer/policy/parts.hpp"

namespace {

using namespace rlcore;

void train(any_device& device, const trainer::options& options, const trainer::team& ranks) {
  // The algorithm. Advantage: as GRPO's. Loss: the ratio may rise further than it may fall (clip_ratio_high=0.28), and
  // every token of the step has the same weight (loss_agg_mode=token-mean). Answers that come close to the longest
  // length allowed lose reward (reward_model.overlong_buffer, in the inputs' rewards).
  const trainer::any_estimator group_relative = trainer::read_estimator(options);
  const trainer::any_policy_loss clip_higher = trainer::read_loss(options);
  const trainer::any_algorithm dapo = trainer::composed_algorithm{group_relative, clip_higher};

  // Inputs and state: prompts, tokenizer and rewards; the policy and further models; the position of the run.
  const auto inputs = trainer::open_policy_inputs(device, options, ranks);
  const auto models = trainer::open_policy_models(device, options, *inputs, dapo, ranks);
  const auto run = trainer::open_policy_run(options, *inputs, *models, ranks);

  while (run->next_step()) {
    // Dynamic sampling (algorithm.filter_groups): rounds of prompts until a step's groups are found whose answers
    // differ, since the others have no gradient. False when the rounds allowed, or the data, are used up.
    if (!run->sample()) break;
    run->provide(dapo.inputs());  // reference log-probs; inputs of alternative estimators
    run->advantages(dapo);        // within each group of answers
    run->update_critic();         // only with an alternative estimator
    run->update_actor(dapo);      // mini-batches, one optimizer step each
    run->finish_step();           // validation, checkpoint, log
  }
  run->finish();  // the report, and the locations of all files
}

}  // namespace

int main(int argc, char** argv) {
  return rlcore::trainer::trainer_main(argc, argv, rlcore::trainer::dapo_registry(), train);
}
