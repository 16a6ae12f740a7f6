// The policy trainers and evaluation, which sample alike, on a device chosen at run time, compiled once for many
// programs (the targets rlcore::trainers and rlcore::policy_trainers).
#include "rlcore/trainer/evaluation/evaluate.hpp"
#include "rlcore/trainer/policy/train_policy.hpp"

RLCORE_BEGIN
namespace trainer {
template std::optional<double> train_policy(any_device&, const options&, const any_algorithm&, bool, reward_source*,
                                            parallel::any_communicator*);
template std::optional<double> train_policy(any_device&, const options&, parallel::any_communicator*);
template void evaluate(any_device*, const options&, parallel::any_communicator*);
}  // namespace trainer
RLCORE_END
