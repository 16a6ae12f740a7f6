// DAPO (Yu et al. 2025, "DAPO: an open-source LLM reinforcement learning system at scale") with verl's command line:
//   build/bin/dapo_trainer data.train_files=train.parquet data.val_files=test.parquet actor_rollout_ref.model.path=...
//       algorithm.filter_groups.enable=True algorithm.filter_groups.metric=acc data.gen_batch_size=...
//       actor_rollout_ref.actor.clip_ratio_high=0.28 reward_model.overlong_buffer.enable=True ...
#include "rlcore/train/policy/parts.hpp"

namespace {

using namespace rlcore;

/// Advantage: that of GRPO. Loss: the clipped ratio, which may rise further than it may fall (clip-higher:
/// clip_ratio_high above clip_ratio_low); no KL, unless use_kl_loss; the mean over all tokens of the step.
train::any_algorithm make_dapo(const train::options& options) {
  const train::policy_loss_settings s = train::read_policy_loss(options);
  train::any_algorithm dapo =
      algorithm{group_relative{.normalize_by_std = options.get<bool>("algorithm.norm_adv_by_std_in_grpo")},
                sum{dual_clip{.low = s.clip.clip_low, .high = s.clip.clip_high, .bound = s.clip.clip_c},
                    when{s.use_kl, scaled{s.kl_coef, s.kl_divergence()}},
                    when{s.entropy_coeff != 0, entropy_bonus(s.entropy_coeff)}},
                s.aggregation};  // loss_agg_mode: token-mean by default
  // Another algorithm.adv_estimator or policy_loss.loss_mode takes the place of the advantage or the loss above.
  train::replace_named_parts(dapo, options, {.adv_estimator = "grpo", .loss_mode = "vanilla"});
  return dapo;
}

void train_dapo(any_device& device, const train::options& options, const train::team& ranks) {
  const train::any_algorithm dapo = make_dapo(options);
  // The rewards of the inputs penalise answers close to the longest length allowed (reward_model.overlong_buffer).
  const auto inputs = train::open_policy_inputs(device, options, ranks);                 // prompts, tokenizer, rewards
  const auto models = train::open_policy_models(device, options, *inputs, dapo, ranks);  // policy
  const auto run = train::open_policy_run(options, *inputs, *models, ranks);             // position, checkpoints, log

  while (run->next_step()) {
    // Dynamic sampling: rounds of gen_batch_size prompts until train_batch_size groups are there whose answers differ:
    // the others have no gradient. It ends as well where max_num_gen_batches or the data are used up.
    while (run->needs_groups()) {
      std::vector<train::trajectory> round = run->sample_round();  // rollout.n answers to each prompt, scored
      run->keep_differing_groups(std::move(round));                // algorithm.filter_groups.metric
    }
    if (!run->take_groups()) break;  // the batch; surplus groups wait for the next step

    run->provide(dapo.inputs());  // what another estimator or a KL reads
    run->penalise_rewards();      // only with algorithm.use_kl_in_reward
    run->advantages(dapo);        // each answer against its group
    run->update_critic();         // only with adv_estimator=gae: DAPO has no critic
    run->update_actor(dapo);      // mini-batches, one optimizer step each
    run->finish_step();           // validation, checkpoint, log
  }
  run->finish();  // the report, and the locations of all files
}

}  // namespace

int main(int argc, char** argv) {
  return rlcore::train::trainer_main(argc, argv, rlcore::train::dapo_registry(), train_dapo);
}
