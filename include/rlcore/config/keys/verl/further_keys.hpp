// Keys of verl (August 2025) that this program knows but does not use: names and defaults, so that nobody is told that
// a correct key is misspelt.
#pragma once

#include "rlcore/config/key.hpp"

RLCORE_BEGIN
namespace trainer::keys {

inline constexpr key further[] = {
    {"actor_rollout_ref.rollout.multi_turn.max_assistant_turns", any, "null", unused, "conversations with tools"},
    {"actor_rollout_ref.rollout.multi_turn.tool_config_path", any, "null", unused, "conversations with tools"},
    {"actor_rollout_ref.rollout.multi_turn.max_user_turns", any, "null", unused, "conversations with tools"},
    {"actor_rollout_ref.rollout.multi_turn.max_parallel_calls", integer, "1", unused, "conversations with tools"},
    {"actor_rollout_ref.rollout.multi_turn.max_tool_response_length", integer, "256", unused,
     "conversations with tools"},
    {"actor_rollout_ref.rollout.multi_turn.tool_response_truncate_side", text, "middle", unused,
     "conversations with tools"},
    {"actor_rollout_ref.rollout.multi_turn.interaction_config_path", any, "null", unused, "conversations with tools"},
    {"actor_rollout_ref.rollout.multi_turn.use_inference_chat_template", boolean, "False", unused,
     "conversations with tools"},
    {"actor_rollout_ref.rollout.multi_turn.tokenization_sanity_check_mode", text, "strict", unused,
     "conversations with tools"},
    {"actor_rollout_ref.rollout.multi_turn.format", text, "hermes", unused, "conversations with tools"},
    {"actor_rollout_ref.rollout.agent.num_workers", integer, "8", unused, "conversations with tools"},
    {"actor_rollout_ref.rollout.agent.agent_loop_config_path", any, "null", unused, "conversations with tools"},
    {"actor_rollout_ref.rollout.agent.custom_async_server.path", any, "null", unused, "conversations with tools"},
    {"actor_rollout_ref.rollout.agent.custom_async_server.name", any, "null", unused, "conversations with tools"},
    {"actor_rollout_ref.rollout.trace.backend", any, "null", unused, "tracing"},
    {"actor_rollout_ref.rollout.trace.token2text", boolean, "False", unused, "tracing"},
    {"actor_rollout_ref.actor.profiler", dictionary, "{}", unused, "profiler"},
    {"actor_rollout_ref.ref.profiler", dictionary, "{}", unused, "profiler"},
    {"actor_rollout_ref.rollout.profiler", dictionary, "{}", unused, "profiler"},
    {"critic.profiler", dictionary, "{}", unused, "profiler"},
    {"global_profiler", dictionary, "{}", unused, "profiler"},
    {"ray_init", dictionary, "{}", unused, "process launcher"},
    {"hydra", dictionary, "{}", unused, "output folders of the launcher"},
};

}  // namespace trainer::keys
RLCORE_END
