// The policy trainers and evaluation, which sample alike, on a device chosen at run time, compiled once for many
// programs (the targets rlcore::trainers and rlcore::policy_trainers).
#include "rlcore/trainer/evaluation/evaluate.hpp"
#include "rlcore/trainer/policy/parts.hpp"
#include "rlcore/trainer/policy/train_policy.hpp"

RLCORE_BEGIN
namespace trainer {
template any_estimator read_estimator(const options&);
template any_policy_loss make_policy_loss(const policy_loss_settings&);
template policy_inputs open_policy_inputs(any_device&, const options&, const team&, reward_source*);
template class policy_models<any_device>;
template class policy_run<any_device>;
template void policy_run<any_device>::advantages(const named_algorithm&);
template void policy_run<any_device>::update_actor(const named_algorithm&);
template std::optional<double> train_policy(any_device&, const options&, const any_algorithm&, bool, reward_source*,
                                            parallel::any_communicator*);
template std::optional<double> train_policy(any_device&, const options&, parallel::any_communicator*);
template void evaluate(any_device*, const options&, parallel::any_communicator*);
}  // namespace trainer
RLCORE_END
