// The parts of a policy recipe, in the order of use. With RLCORE_COMPILED this is their declarations:
// the CMake target rlcore::trainers has them compiled for any_device, and a recipe that links it compiles in seconds.
// Without it, and for another device, the headers that define them are included.
#pragma once

#include "rlcore/config/options.hpp"
#include "rlcore/config/registry.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/advantage/reinforce_plus_plus.hpp"
#include "rlcore/objective/advantage/whitening.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/train/policy/algorithm/any_algorithm.hpp"
#include "rlcore/train/policy/open.hpp"
#include "rlcore/train/policy/run.hpp"
#include "rlcore/train/run/trainers.hpp"

#if !defined(RLCORE_COMPILED)
#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/train/policy/algorithm/named_algorithm.hpp"
#include "rlcore/train/policy/inputs.hpp"
#include "rlcore/train/policy/models.hpp"
#include "rlcore/train/policy/run_impl.hpp"
#include "rlcore/train/run/trainer_main_on_ranks.hpp"
#endif
