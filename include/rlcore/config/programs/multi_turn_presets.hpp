// verl's configurations of conversations with tools, which are files beside its examples: their names and settings.
#pragma once

#include <span>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace train {

/// A name of --config-name that stands for the defaults of ppo_trainer, multi_turn_settings and these settings.
struct config_preset {
  std::string_view name;
  std::span<const std::string_view> settings;
};

/// What all presets set.
inline constexpr std::string_view multi_turn_settings[] = {
    "data.train_batch_size=256", "data.return_raw_chat=True", "actor_rollout_ref.rollout.name=sglang",
    "actor_rollout_ref.rollout.multi_turn.enable=True", "actor_rollout_ref.rollout.multi_turn.max_assistant_turns=5"};

namespace detail {

inline constexpr std::string_view gsm8k_multiturn[] = {"data.max_prompt_length=1024", "data.max_response_length=1024"};
inline constexpr std::string_view geo3k_multiturn[] = {"data.max_prompt_length=2048", "data.max_response_length=2048"};
inline constexpr std::string_view retool_multiturn[] = {
    "data.max_prompt_length=1024", "data.max_response_length=1024", "actor_rollout_ref.rollout.mode=async",
    "actor_rollout_ref.rollout.multi_turn.tool_config_path=./config/tool_config/sandbox_fusion_tool_config.yaml"};

}  // namespace detail

/// Those of the trainers with verl's keys.
inline constexpr config_preset config_presets[] = {{"gsm8k_multiturn_grpo", detail::gsm8k_multiturn},
                                                   {"gsm8k_multiturn_megatron_grpo", detail::gsm8k_multiturn},
                                                   {"geo3k_multiturn_grpo", detail::geo3k_multiturn},
                                                   {"retool_multiturn_grpo", detail::retool_multiturn}};

}  // namespace train
RLCORE_END
