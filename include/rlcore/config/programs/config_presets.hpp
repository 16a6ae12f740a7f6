// verl's configurations beside ppo_trainer, which are files beside its examples: their names and settings.
#pragma once

#include <span>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace train {

/// A name of --config-name that stands for the defaults of ppo_trainer and these settings.
struct config_preset {
  std::string_view name;
  std::span<const std::string_view> common, settings;
};

namespace detail {

/// Of all conversations.
inline constexpr std::string_view multi_turn[] = {"data.train_batch_size=256", "data.return_raw_chat=True",
                                                  "actor_rollout_ref.rollout.name=sglang",
                                                  "actor_rollout_ref.rollout.multi_turn.enable=True"};
inline constexpr std::string_view gsm8k_multiturn[] = {"data.max_prompt_length=1024", "data.max_response_length=1024",
                                                       "actor_rollout_ref.rollout.multi_turn.max_assistant_turns=5"};
inline constexpr std::string_view gsm8k_with_user[] = {"data.max_prompt_length=1024", "data.max_response_length=1024",
                                                       "actor_rollout_ref.rollout.multi_turn.max_user_turns=5"};
inline constexpr std::string_view geo3k_multiturn[] = {"data.max_prompt_length=2048", "data.max_response_length=2048",
                                                       "actor_rollout_ref.rollout.multi_turn.max_assistant_turns=5"};
inline constexpr std::string_view retool_multiturn[] = {
    "data.max_prompt_length=1024", "data.max_response_length=1024", "actor_rollout_ref.rollout.mode=async",
    "actor_rollout_ref.rollout.multi_turn.max_assistant_turns=5",
    "actor_rollout_ref.rollout.multi_turn.tool_config_path=./config/tool_config/sandbox_fusion_tool_config.yaml"};

/// verl's one_step_off_policy: its old log-probs are those of the policy that the step starts with.
inline constexpr std::string_view one_step_off[] = {"rlcore.async_depth=1", "rlcore.recompute_old_log_prob=True",
                                                    "actor_rollout_ref.hybrid_engine=False"};

/// verl's fully_async_policy.
inline constexpr std::string_view fully_async[] = {"async_training.staleness_threshold=0.1",
                                                   "rollout.test_freq=1",
                                                   "actor_rollout_ref.rollout.n=4",
                                                   "trainer.total_epochs=10",
                                                   "actor_rollout_ref.rollout.free_cache_engine=False",
                                                   "actor_rollout_ref.hybrid_engine=False"};

}  // namespace detail

/// Those of the trainers with verl's keys.
inline constexpr config_preset config_presets[] = {
    {"gsm8k_multiturn_grpo", detail::multi_turn, detail::gsm8k_multiturn},
    {"gsm8k_multiturn_megatron_grpo", detail::multi_turn, detail::gsm8k_multiturn},
    {"gsm8k_multiturn_grpo_w_interaction", detail::multi_turn, detail::gsm8k_with_user},
    {"geo3k_multiturn_grpo", detail::multi_turn, detail::geo3k_multiturn},
    {"retool_multiturn_grpo", detail::multi_turn, detail::retool_multiturn},
    {"one_step_off_ppo_trainer", {}, detail::one_step_off},
    {"one_step_off_ppo_megatron_trainer", {}, detail::one_step_off},
    {"fully_async_ppo_trainer", {}, detail::fully_async},
    {"fully_async_ppo_megatron_trainer", {}, detail::fully_async}};

}  // namespace train
RLCORE_END
