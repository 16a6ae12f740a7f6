// The parts of recipes that learn from judged answers. With RLCORE_COMPILED this is their declarations: the CMake
// target rlcore::trainers has them compiled for any_device, and a recipe that links it compiles in seconds. Without it,
// and for another device, the headers that define them are included.
#pragma once

#include "rlcore/config/options.hpp"
#include "rlcore/config/registry.hpp"
#include "rlcore/objective/algorithm/dpo.hpp"
#include "rlcore/objective/algorithm/kto.hpp"
#include "rlcore/objective/algorithm/openrlhf.hpp"
#include "rlcore/objective/algorithm/reward_model.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/train/preference/open.hpp"
#include "rlcore/train/run/trainers.hpp"
#include "rlcore/train/supervised/open.hpp"

#if !defined(RLCORE_COMPILED)
#include "rlcore/config/programs/preference_keys.hpp"
#include "rlcore/train/preference/dpo_task.hpp"
#include "rlcore/train/preference/kto_task.hpp"
#include "rlcore/train/preference/prm_task.hpp"
#include "rlcore/train/preference/reference.hpp"
#include "rlcore/train/preference/rm_task.hpp"
#include "rlcore/train/preference/run.hpp"
#include "rlcore/train/run/trainer_main_on_ranks.hpp"
#include "rlcore/train/supervised/run.hpp"
#endif
