// The parts of a policy recipe, in the order of use. With RLCORE_COMPILED this is their declarations:
// the CMake target rlcore::trainers has them compiled for any_device, and a recipe that links it compiles in seconds.
// Without it, and for another device, the headers that define them are included.
#pragma once

#include "rlcore/config/registry.hpp"
#include "rlcore/trainer/policy/algorithm/any_algorithm.hpp"
#include "rlcore/trainer/policy/algorithm/any_estimator.hpp"
#include "rlcore/trainer/policy/algorithm/any_policy_loss.hpp"
#include "rlcore/trainer/policy/algorithm/composed_algorithm.hpp"
#include "rlcore/trainer/policy/open.hpp"
#include "rlcore/trainer/policy/run.hpp"
#include "rlcore/trainer/trainer_main.hpp"

#if !defined(RLCORE_COMPILED)
#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/trainer/policy/algorithm/read_algorithm.hpp"
#include "rlcore/trainer/policy/inputs.hpp"
#include "rlcore/trainer/policy/models.hpp"
#include "rlcore/trainer/policy/run_of.hpp"
#include "rlcore/trainer/trainer_main_on_ranks.hpp"
#endif
