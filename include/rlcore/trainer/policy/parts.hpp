// The parts of a policy recipe. The CMake target rlcore::trainers has them compiled for any_device: a recipe that links
// it compiles their declarations, most of which is reading headers. For another device they are instantiated where they
// are used.
#pragma once

#include "rlcore/trainer/policy/algorithm/read_algorithm.hpp"
#include "rlcore/trainer/policy/inputs.hpp"
#include "rlcore/trainer/policy/models.hpp"
#include "rlcore/trainer/policy/run.hpp"
#include "rlcore/trainer/trainer_main.hpp"

RLCORE_BEGIN
namespace trainer {

/// The algorithm that a command line names.
using named_algorithm = composed_algorithm<any_estimator, any_policy_loss>;

#if defined(RLCORE_COMPILED)
/// In src/policy_trainers.cpp.
extern template any_estimator read_estimator(const options&);
/// In src/policy_trainers.cpp.
extern template any_policy_loss make_policy_loss(const policy_loss_settings&);
/// In src/policy_trainers.cpp.
extern template policy_inputs open_policy_inputs(any_device&, const options&, const team&, reward_source*);
extern template class policy_models<any_device>;
extern template class policy_run<any_device>;
/// In src/policy_trainers.cpp.
extern template void policy_run<any_device>::advantages(const named_algorithm&);
/// In src/policy_trainers.cpp.
extern template void policy_run<any_device>::update_actor(const named_algorithm&);
#endif

}  // namespace trainer
RLCORE_END
