// The keys of dapo_trainer: verl's recipe.dapo.main_dapo, which is main_ppo with another default of the reward manager.
#pragma once

#include "rlcore/config/programs/main_ppo.hpp"

RLCORE_BEGIN
namespace trainer {

namespace keys {

inline constexpr key dapo[] = {
    {"reward_model.reward_manager", text, "dapo", honoured,
     "naive, batch, prime: the score as it is; dapo: also acc and the overlong penalty",
     words("naive|dapo|batch|prime")},
    {"trainer.project_name", text, "verl-dapo", honoured, "first part of the run's name"},
};

}  // namespace keys

/// The keys of main_ppo_registry() with the reward manager and the configuration's name of verl's DAPO recipe.
inline registry dapo_registry() {
  registry known = main_ppo_registry();
  known.program = "dapo_trainer";
  known.summary = "DAPO: dynamic sampling, clip-higher, token-level loss, overlong reward shaping";
  known.config_name = "dapo_trainer";
  known.config_names = {"dapo_trainer", "dapo_megatron_trainer", "ppo_trainer", "ppo_megatron_trainer"};
  known.later_config_names = {"sft_trainer"};
  return known.add(keys::dapo);
}

}  // namespace trainer
RLCORE_END
