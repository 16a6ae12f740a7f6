// Keys that verl has got since August 2025, up to 0.9.1, as far as command lines set them and this program has nothing
// to read in them.
#pragma once

#include "rlcore/config/key.hpp"

RLCORE_BEGIN
namespace trainer::keys {

inline constexpr key newer[] = {
    {"data.seed", integer, "null", fixed, "seed of the order of rows; rlcore.seed is that of all random numbers"},
    {"actor_rollout_ref.actor.calculate_entropy", boolean, "False", accepted, "actor/entropy is always reported"},
    {"actor_rollout_ref.actor.calculate_sum_pi_squared", boolean, "False", accepted,
     "computed where an estimator reads it"},
    {"actor_rollout_ref.actor.use_prefix_grouper", boolean, "False", accepted, "speed alone"},
    {"actor_rollout_ref.actor.data_loader_seed", integer, "42", fixed,
     "seed of the order within a step; rlcore.seed is that of all random numbers"},
    {"actor_rollout_ref.actor.fsdp_config.use_torch_compile", boolean, "True", accepted, "compile the forward"},
    {"actor_rollout_ref.actor.fsdp_config.use_orig_params", boolean, "False", accepted, "FSDP: how PyTorch wraps"},
    {"actor_rollout_ref.actor.fsdp_config.dtype", text, "bfloat16", accepted, "see rlcore.compute"},
    {"actor_rollout_ref.ref.fsdp_config.use_torch_compile", boolean, "True", accepted, "compile the forward"},
    {"actor_rollout_ref.ref.fsdp_config.use_orig_params", boolean, "False", accepted, "FSDP: how PyTorch wraps"},
    {"actor_rollout_ref.ref.fsdp_config.dtype", text, "bfloat16", accepted, "see rlcore.compute"},
    {"actor_rollout_ref.rollout.seed", integer, "42", fixed,
     "seed of sampling; rlcore.seed is that of all random numbers"},
    {"actor_rollout_ref.rollout.data_parallel_size", integer, "1", accepted, "ranks sample their share of the prompts"},
    {"actor_rollout_ref.rollout.logprobs_mode", text, "processed_logprobs", accepted,
     "of what another engine reports; old log-probs here are those of the trainer"},
    {"actor_rollout_ref.rollout.scheduling_policy", text, "fcfs", accepted,
     "order of requests; no result depends on it"},
    {"actor_rollout_ref.rollout.skip_tokenizer_init", boolean, "True", accepted, "start of another engine"},
    {"actor_rollout_ref.rollout.prometheus", dictionary, "{}", unused, "metrics of another engine"},
    {"actor_rollout_ref.rollout.agent.default_agent_loop", text, "single_turn_agent", unused,
     "conversations with tools"},
    {"actor_rollout_ref.rollout.trace.project_name", any, "null", unused, "tracing"},
    {"actor_rollout_ref.rollout.trace.experiment_name", any, "null", unused, "tracing"},
    {"algorithm.rollout_correction.rollout_is", text, "null", fixed,
     "weights for the rollout's probabilities; here they are the trainer's own"},
    {"algorithm.rollout_correction.rollout_rs", text, "null", fixed,
     "rejects by the rollout's probabilities; here they are the trainer's own"},
    {"algorithm.rollout_correction.bypass_mode", boolean, "False", accepted,
     "old log-probs are those recorded while sampling; see rlcore.recompute_old_log_prob"},
    {"algorithm.rollout_correction.loss_type", text, "ppo_clip", fixed,
     "loss with bypass_mode; see actor.policy_loss.loss_mode"},
    {"algorithm.rollout_correction.rollout_is_threshold", any, "2.0", unused, "only with rollout_is"},
    {"algorithm.rollout_correction.rollout_rs_threshold", any, "null", unused, "only with rollout_rs"},
    {"algorithm.rollout_correction.rollout_is_batch_normalize", boolean, "False", unused, "only with rollout_is"},
    {"trainer.use_v1", boolean, "True", accepted, "upstream internals"},
    {"trainer.v1.trainer_mode", text, "sync", fixed, "sampling and training in turn, or beside each other"},
    {"ray_kwargs", dictionary, "{}", unused, "process launcher"},
    {"transfer_queue", dictionary, "{}", unused, "traffic between processes"},
};

}  // namespace trainer::keys
RLCORE_END
