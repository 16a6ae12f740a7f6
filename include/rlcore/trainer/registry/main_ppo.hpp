// The keys of grpo_trainer: verl's main_ppo (state of August 2025) and our own.
#pragma once

#include "rlcore/trainer/options.hpp"
#include "rlcore/trainer/options/policy_checks.hpp"
#include "rlcore/trainer/registry/actor_keys.hpp"
#include "rlcore/trainer/registry/data_keys.hpp"
#include "rlcore/trainer/registry/further_keys.hpp"
#include "rlcore/trainer/registry/megatron_keys.hpp"
#include "rlcore/trainer/registry/registry.hpp"
#include "rlcore/trainer/registry/reward_keys.hpp"
#include "rlcore/trainer/registry/rollout_keys.hpp"
#include "rlcore/trainer/registry/trainer_keys.hpp"

RLCORE_BEGIN
namespace trainer {

/// To make the table of another trainer: copy this, change `program`, and add() sections that replace or extend keys.
inline registry main_ppo_registry() {
  registry known;
  known.program = "grpo_trainer";
  known.summary = "group relative policy optimization of a language model on rewards";
  known.config_name = "ppo_trainer";
  known.config_names = {"ppo_trainer", "ppo_megatron_trainer"};
  known.later_config_names = {"dapo_trainer", "dapo_megatron_trainer", "sft_trainer"};
  known.check = check_policy_options;
  known.add(keys::data).add(keys::model).add(keys::actor).add(keys::rollout).add(keys::reference);
  known.add(keys::algorithm)
      .add(keys::reward)
      .add(keys::critic)
      .add(keys::trainer)
      .add(keys::own)
      .add(keys::own_reward);
  known.add(keys::megatron).add(keys::further);
  known.add_flags(keys::own_flags).add_flags(keys::policy_flags);
  return known;
}

}  // namespace trainer
RLCORE_END
