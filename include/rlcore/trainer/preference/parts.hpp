// The parts of recipes that learn from judged answers. The CMake target rlcore::trainers has them compiled for
// any_device: a recipe that links it compiles their declarations, most of which is reading headers.
#pragma once

#include <memory>

#include "rlcore/trainer/preference/dpo_task.hpp"
#include "rlcore/trainer/preference/kto_task.hpp"
#include "rlcore/trainer/preference/load_reference.hpp"
#include "rlcore/trainer/preference/prm_task.hpp"
#include "rlcore/trainer/preference/rm_task.hpp"
#include "rlcore/trainer/preference/run.hpp"
#include "rlcore/trainer/supervised/run.hpp"
#include "rlcore/trainer/trainer_main.hpp"

RLCORE_BEGIN
namespace trainer {

#if defined(RLCORE_COMPILED)
/// In src/supervised_trainers.cpp.
extern template std::unique_ptr<frozen_model<any_device>> load_reference(any_device&, const options&, const base_model&,
                                                                         const team&);
extern template class frozen_model<any_device>;
extern template class dpo_task<any_device>;
extern template class kto_task<any_device>;
extern template class rm_task<any_device>;
extern template class prm_task<any_device>;
extern template class supervised_run<any_device, dpo_task<any_device>>;
extern template class supervised_run<any_device, kto_task<any_device>>;
extern template class supervised_run<any_device, rm_task<any_device>>;
extern template class supervised_run<any_device, prm_task<any_device>>;
#endif

}  // namespace trainer
RLCORE_END
