// The parts of a recipe of supervised fine-tuning. With RLCORE_COMPILED this is their declarations: the CMake target
// rlcore::trainers has them compiled for any_device, and a recipe that links it compiles in seconds. Without it, and
// for another device, the headers that define them are included.
#pragma once

#include "rlcore/config/options.hpp"
#include "rlcore/config/registry.hpp"
#include "rlcore/objective/piece/supervised.hpp"
#include "rlcore/train/run/trainers.hpp"
#include "rlcore/train/supervised/open.hpp"

#if !defined(RLCORE_COMPILED)
#include "rlcore/config/programs/sft.hpp"
#include "rlcore/train/run/trainer_main_on_ranks.hpp"
#include "rlcore/train/supervised/run.hpp"
#include "rlcore/train/supervised/sft_work.hpp"
#endif
