// The parts of a recipe of supervised fine-tuning. The CMake target rlcore::trainers has them compiled for any_device:
// a recipe that links it compiles their declarations, most of which is reading headers.
#pragma once

#include "rlcore/trainer/supervised/run.hpp"
#include "rlcore/trainer/supervised/sft_work.hpp"
#include "rlcore/trainer/trainer_main.hpp"

RLCORE_BEGIN
namespace trainer {

#if defined(RLCORE_COMPILED)
extern template class supervised_run<any_device, sft_task<any_device, negative_log_likelihood>>;
extern template class supervised_run<any_device, sft_task<any_device, dft>>;
#endif

}  // namespace trainer
RLCORE_END
