// Declarations of the trainer registries. They are templates, so a caller compiles neither the keys nor their checks:
// main_ppo.hpp, dapo.hpp, preference_keys.hpp and sft.hpp define them, the trainer libraries contain them compiled.
#pragma once

#include "rlcore/config/registry.hpp"

RLCORE_BEGIN
namespace trainer {

/// verl's main_ppo, and OpenRLHF's flags, whose advantage_estimator is then group_norm.
registry grpo_trainer_registry();
/// verl's main_ppo with the estimator gae and a critic, and OpenRLHF's PPO flags beside it.
registry ppo_trainer_registry();
/// verl's main_ppo with the estimator reinforce_plus_plus, and OpenRLHF's flags, whose advantage_estimator is then
/// reinforce.
registry reinforce_plus_plus_trainer_registry();
/// The keys of grpo_trainer with the reward manager and the configuration's name of verl's DAPO recipe. OpenRLHF has no
/// flags for DAPO's additions to GRPO; a note names the keys that do.
registry dapo_registry();

/// The flags of OpenRLHF's train_dpo, and rlcore's own keys.
registry dpo_registry();
/// The flags of OpenRLHF's train_kto, and rlcore's own keys.
registry kto_registry();
/// The flags of OpenRLHF's train_rm, and rlcore's own keys.
registry rm_registry();
/// The flags of OpenRLHF's train_prm, and rlcore's own keys.
registry prm_registry();

/// The registry of the command line: verl's keys, or OpenRLHF's if it contains one of their flags.
registry sft_registry(int argc, const char* const* argv);

}  // namespace trainer
RLCORE_END
