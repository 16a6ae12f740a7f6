// reward_model.*, custom_reward_function.* and the newer spelling reward.*: how responses are scored.
#pragma once

#include "rlcore/config/key.hpp"

RLCORE_BEGIN
namespace trainer::keys {

inline constexpr key reward[] = {
    {"reward_model.reward_manager", text, "naive", honoured,
     "naive, batch, prime: the score as it is; dapo: also acc and the overlong penalty",
     words("naive|dapo|batch|prime")},
    {"reward_model.overlong_buffer.enable", boolean, "False", honoured,
     "penalty for responses near the limit (with reward_manager=dapo)"},
    {"reward_model.overlong_buffer.len", integer, "0", honoured, "width of that zone in tokens", at_least(0)},
    {"reward_model.overlong_buffer.penalty_factor", real, "0.0", honoured, "penalty at the limit", at_least(0)},
    {"reward_model.overlong_buffer.log", boolean, "False", honoured,
     "the penalty of each response in trainer.rollout_data_dir, too"},
    {"reward_model.max_resp_len", integer, "null", honoured,
     "response limit the penalty refers to; null: data.max_response_length", at_least(1)},
    {"reward_model.reward_kwargs.overlong_buffer_cfg.enable", boolean, "False", honoured, "= overlong_buffer.enable"},
    {"reward_model.reward_kwargs.overlong_buffer_cfg.len", integer, "0", honoured, "= overlong_buffer.len",
     at_least(0)},
    {"reward_model.reward_kwargs.overlong_buffer_cfg.penalty_factor", real, "0.0", honoured,
     "= overlong_buffer.penalty_factor", at_least(0)},
    {"reward_model.reward_kwargs.overlong_buffer_cfg.log", boolean, "False", honoured, "= overlong_buffer.log"},
    {"reward_model.reward_kwargs.max_resp_len", integer, "null", honoured, "= reward_model.max_resp_len", at_least(1)},
    {"reward.reward_manager.name", text, "naive", honoured, "= reward_model.reward_manager",
     words("naive|dapo|batch|prime")},
    {"reward.reward_kwargs.overlong_buffer_cfg.enable", boolean, "False", honoured, "= overlong_buffer.enable"},
    {"reward.reward_kwargs.overlong_buffer_cfg.len", integer, "0", honoured, "= overlong_buffer.len", at_least(0)},
    {"reward.reward_kwargs.overlong_buffer_cfg.penalty_factor", real, "0.0", honoured,
     "= overlong_buffer.penalty_factor", at_least(0)},
    {"reward.reward_kwargs.overlong_buffer_cfg.log", boolean, "False", honoured, "= overlong_buffer.log"},
    {"reward.reward_kwargs.max_resp_len", integer, "null", honoured, "= reward_model.max_resp_len", at_least(1)},
    {"reward.num_workers", integer, "8", accepted, "processes that score"},
    {"reward_model.launch_reward_fn_async", boolean, "False", accepted, "score while the old log-probs are computed"},

    {"custom_reward_function.path", text, "null", honoured,
     "own reward function: a .py file with custom_reward_function.name in it, or a program that answers JSON lines"},
    {"custom_reward_function.name", text, "compute_score", honoured, "the function of a .py file"},
    {"custom_reward_function.reward_kwargs", dictionary, "{}", honoured, "further arguments of that function"},
    {"reward.custom_reward_function.path", text, "null", honoured, "= custom_reward_function.path"},
    {"reward.custom_reward_function.name", text, "compute_score", honoured, "= custom_reward_function.name"},
    {"reward.custom_reward_function.reward_kwargs", dictionary, "{}", honoured,
     "= custom_reward_function.reward_kwargs"},

    {"reward_model.enable", boolean, "False", honoured, "score with a reward model instead of rules"},
    {"reward_model.model.path", text, "'~/models/FsfairX-LLaMA3-RM-v0.1'", honoured,
     "its folder, e.g. a checkpoint of rm_trainer"},
    {"reward_model.model.input_tokenizer", text, "${actor_rollout_ref.model.path}", honoured,
     "null: it reads the policy's tokens; else its own, if tokenizer or template differ"},
    {"reward_model.micro_batch_size_per_gpu", integer, "null", honoured, "conversations per forward; memory only",
     at_least(1)},
    {"reward_model.micro_batch_size", integer, "null", honoured, "deprecated: the same over all devices", at_least(1)},
    {"reward_model.max_length", integer, "null", honoured, "longest conversation in its tokens; more are cut off",
     at_least(1)},
    {"reward_model.use_dynamic_bsz", boolean, "${critic.use_dynamic_bsz}", honoured, "fill by tokens instead"},
    {"reward_model.forward_max_token_len_per_gpu", integer, "${critic.forward_max_token_len_per_gpu}", honoured,
     "tokens per forward (only with use_dynamic_bsz)", at_least(1)},
    {"reward_model.strategy", text, "fsdp", accepted, "how weights are sharded", words("fsdp|fsdp2|megatron")},
    {"reward_model.model.external_lib", any, "${actor_rollout_ref.model.external_lib}", accepted,
     "Python package to import"},
    {"reward_model.model.trust_remote_code", boolean, "False", accepted,
     "this program runs no code from model folders"},
    {"reward_model.model.use_shm", boolean, "False", accepted, "copy the model to shared memory first"},
    {"reward_model.model.use_remove_padding", boolean, "False", accepted, "padding is never computed here"},
    {"reward_model.model.use_fused_kernels", any, "${actor_rollout_ref.model.use_fused_kernels}", accepted,
     "another set of GPU kernels"},
    {"reward_model.model.fsdp_config.wrap_policy.min_num_params", integer, "0", accepted, "FSDP: smallest shard unit"},
    {"reward_model.model.fsdp_config.param_offload", boolean, "False", accepted,
     "move weights to the host between phases"},
    {"reward_model.model.fsdp_config.reshard_after_forward", boolean, "True", accepted, "FSDP: free gathered weights"},
    {"reward_model.model.fsdp_config.fsdp_size", integer, "-1", accepted, "FSDP: devices per shard group"},
    {"reward_model.model.fsdp_config.forward_prefetch", boolean, "False", accepted, "FSDP: gather early"},
    {"reward_model.ulysses_sequence_parallel_size", integer, "1", accepted, "sequence parallel ranks"},
    {"reward_model.sandbox_fusion.url", text, "null", fixed, "code sandbox; see custom_reward_function.path"},
    {"reward_model.sandbox_fusion.max_concurrent", integer, "64", unused, "code sandbox"},
    {"reward_model.sandbox_fusion.memory_limit_mb", integer, "1024", unused, "code sandbox"},
    {"reward_model.profiler", dictionary, "{}", unused, "profiler"},
};

inline constexpr key own_reward[] = {
    {"rlcore.reward_command", text, "null", honoured, "shell command that answers each JSON line with a score"},
    {"rlcore.reward_timeout", real, "60", honoured, "seconds it may take for one answer", at_least(0.001)},
    {"rlcore.reward_on_failure", text, "error", honoured,
     "an answer that cannot be scored ends the run, or counts 0 and reward/failed", words("error|zero")},
    {"rlcore.normalize_reward", boolean, "False", honoured,
     "a reward model's score less mean, over std, as its config.json has them (rm_trainer)"},
};

}  // namespace trainer::keys
RLCORE_END
