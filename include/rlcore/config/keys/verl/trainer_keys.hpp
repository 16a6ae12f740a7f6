// trainer.*, rlcore.*, critic: the run as a whole.
#pragma once

#include "rlcore/config/flag.hpp"
#include "rlcore/config/key.hpp"
#include "rlcore/config/keys/rlcore_keys.hpp"

RLCORE_BEGIN
namespace trainer::keys {

inline constexpr key trainer[] = {
    {"trainer.total_epochs", integer, "30", honoured, "passes over the training rows", at_least(0)},
    {"trainer.total_training_steps", integer, "null", honoured, "steps; overrides total_epochs", at_least(0)},
    {"trainer.project_name", text, "verl_examples", honoured, "first part of the run's name"},
    {"trainer.experiment_name", text, "gsm8k", honoured, "second part of the run's name"},
    {"trainer.default_local_dir", text, "checkpoints/${trainer.project_name}/${trainer.experiment_name}", honoured,
     "folder of checkpoints, metrics and report", not_empty},
    {"trainer.logger", texts, "[console,file,tensorboard]", honoured,
     "where metrics go: console, file (metrics.jsonl), tensorboard (event files); for wandb, swanlab, mlflow, trackio "
     "and clearml a command that sends the files there is printed"},
    {"trainer.save_freq", integer, "-1", honoured, "checkpoint every so many steps and at the last; <= 0: never"},
    {"trainer.test_freq", integer, "-1", honoured, "validation every so many steps and at the last; <= 0: never"},
    {"trainer.val_before_train", boolean, "True", honoured, "validation before the first step"},
    {"trainer.val_only", boolean, "False", honoured, "stop after that validation"},
    {"trainer.resume_mode", text, "auto", honoured, "auto: from the last checkpoint, if there is one",
     words("auto|disable|resume_path")},
    {"trainer.resume_from_path", text, "null", honoured,
     "checkpoint folder global_step_N (with resume_mode=resume_path)"},
    {"trainer.max_actor_ckpt_to_keep", integer, "null", honoured, "older checkpoints are removed; null keeps all",
     at_least(0)},
    {"trainer.rollout_data_dir", text, "null", honoured, "folder for the responses of each step as JSONL"},
    {"trainer.critic_warmup", integer, "0", honoured, "the actor learns from this step on", at_least(0)},
    {"trainer.default_hdfs_dir", text, "null", fixed, "remote copy of the checkpoints"},
    {"trainer.validation_data_dir", text, "null", fixed, "folder for the validation responses"},
    {"trainer.log_val_generations", integer, "0", accepted, "samples sent to a web tracker"},
    {"trainer.balance_batch", boolean, "True", honoured, "even out the work between ranks"},
    {"trainer.max_critic_ckpt_to_keep", integer, "null", honoured,
     "the critics of older checkpoints are removed; null keeps all", at_least(0)},
    {"trainer.del_local_ckpt_after_load", boolean, "False", fixed, "remove a checkpoint once it is read"},
    {"trainer.esi_redundant_time", real, "0", fixed, "save before a rented machine expires"},
    {"trainer.ray_wait_register_center_timeout", integer, "300", accepted, "seconds to wait for other processes"},
    {"trainer.use_legacy_worker_impl", text, "auto", accepted, "upstream internals"},
};

inline constexpr key own_run[] = {
    {"rlcore.export_path", text, "null", honoured,
     "folder to which the trained model is copied at the end, for transformers and other programs"},
    verl_version_key,
    {"rlcore.seed", integer, "1", honoured, "seed of shuffling and sampling", at_least(0)},
    {"rlcore.report", boolean, "True", honoured, "write report.html beside the checkpoints"},
    console,
    {"rlcore.tensorboard_dir", text, "null", honoured,
     "folder of the event files (also --use_tensorboard); null: $TENSORBOARD_DIR, or tensorboard beside metrics.jsonl"},
    {"rlcore.logits_memory_mb", integer, "256", honoured, "memory for logits, in MiB; no result depends on it",
     at_least(1)},
    {"rlcore.max_decode_batch", integer, "null", honoured, "sequences decoded together; null: rollout.max_num_seqs",
     at_least(1)},
    {"rlcore.rollout_weights", text, "same", honoured,
     "the rollout multiplies by the trainer's weights, or by int8 copies; old log-probs are then recomputed",
     words("same|int8")},
    {"rlcore.keep_surplus", boolean, "True", honoured,
     "dynamic sampling: groups beyond a step's need wait for the next one; False throws them away, as verl does"},
    {"rlcore.chat_template", text, "null", honoured,
     "another chat template than the model's: a file, Jinja text, or a family such as qwen2.5"},
    {"rlcore.label_key", text, "null", honoured,
     "column of the right answer; null: reward_model.ground_truth, as verl's rows have it"},
    {"rlcore.data_source", text, "null", honoured, "reward rule of rows without a column data_source"},
    {"rlcore.decay_norms_and_biases", boolean, "True", honoured,
     "weight decay for all parameters; False: for matrices alone, as OpenRLHF has it"},
    {"rlcore.lr_per_update", boolean, "False", honoured,
     "the learning rate advances with every update, as OpenRLHF has it, not once per step"},
    {"rlcore.round_warmup_up", boolean, "False", honoured,
     "warm-up of ceil(ratio * steps) instead of floor, as OpenRLHF has it"},
    {"rlcore.advantages", text, "verl", honoured, "whose conventions the advantage estimators follow",
     words("verl|openrlhf")},
    {"rlcore.reward_clip_range", texts, "[-10,10]", honoured, "bounds of a reward (with rlcore.advantages=openrlhf)"},
    {"rlcore.scale_advantages", boolean, "True", honoured,
     "divide by the deviation over the step (with rlcore.advantages=openrlhf)"},
    {"rlcore.recompute_old_log_prob", boolean, "False", honoured,
     "compute the old log-probs again instead of keeping those recorded while sampling; the same bits"},
    {"rlcore.replay", text, "null", honoured,
     "responses to train on instead of sampling: a trainer.rollout_data_dir, or one file of such lines (also "
     "--replay)"},
};

/// Flags that every trainer takes beside its keys.
inline constexpr flag own_flags[] = {{"use_tensorboard", "rlcore.tensorboard_dir"}};
inline constexpr flag policy_flags[] = {{"replay", "rlcore.replay"}};

}  // namespace trainer::keys
RLCORE_END
