// The names that verl's versions have given a setting.
#pragma once

#include "rlcore/config/registry.hpp"

RLCORE_BEGIN
namespace trainer::keys {

inline constexpr spelling spellings[] = {
    {"actor_rollout_ref.actor.optim.warmup_style", "actor_rollout_ref.actor.optim.lr_scheduler_type"},
    {"actor_rollout_ref.actor.grad_clip", "actor_rollout_ref.actor.optim.clip_grad"},
    {"actor_rollout_ref.actor.strategy", "actor_rollout_ref.actor.fsdp_config.strategy"},
    {"actor_rollout_ref.actor.ulysses_sequence_parallel_size",
     "actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size"},
    {"actor_rollout_ref.ref.strategy", "actor_rollout_ref.ref.fsdp_config.strategy"},
    {"actor_rollout_ref.ref.ulysses_sequence_parallel_size",
     "actor_rollout_ref.ref.fsdp_config.ulysses_sequence_parallel_size"},
    {"critic.optim.warmup_style", "critic.optim.lr_scheduler_type"},
    {"critic.grad_clip", "critic.optim.clip_grad"},
    {"critic.strategy", "critic.fsdp.strategy"},
    {"critic.ulysses_sequence_parallel_size", "critic.fsdp.ulysses_sequence_parallel_size"},
    {"reward_model.reward_manager", "reward.reward_manager.name"},
    {"reward_model.overlong_buffer.enable", "reward_model.reward_kwargs.overlong_buffer_cfg.enable"},
    {"reward_model.overlong_buffer.enable", "reward.reward_kwargs.overlong_buffer_cfg.enable"},
    {"reward_model.overlong_buffer.len", "reward_model.reward_kwargs.overlong_buffer_cfg.len"},
    {"reward_model.overlong_buffer.len", "reward.reward_kwargs.overlong_buffer_cfg.len"},
    {"reward_model.overlong_buffer.penalty_factor", "reward_model.reward_kwargs.overlong_buffer_cfg.penalty_factor"},
    {"reward_model.overlong_buffer.penalty_factor", "reward.reward_kwargs.overlong_buffer_cfg.penalty_factor"},
    {"reward_model.overlong_buffer.log", "reward_model.reward_kwargs.overlong_buffer_cfg.log"},
    {"reward_model.overlong_buffer.log", "reward.reward_kwargs.overlong_buffer_cfg.log"},
    {"reward_model.max_resp_len", "reward_model.reward_kwargs.max_resp_len"},
    {"reward_model.max_resp_len", "reward.reward_kwargs.max_resp_len"},
    {"reward_model.enable", "reward.reward_model.enable"},
    {"reward_model.model.path", "reward.reward_model.model_path"},
    {"custom_reward_function.path", "reward.custom_reward_function.path"},
    {"custom_reward_function.name", "reward.custom_reward_function.name"},
    {"custom_reward_function.reward_kwargs", "reward.custom_reward_function.reward_kwargs"}};

}  // namespace trainer::keys
RLCORE_END
