// The policy trainers on a device chosen at run time, compiled once for many programs (the target rlcore::trainers).
#include "rlcore/trainer/policy/train_policy.hpp"

RLCORE_BEGIN
namespace trainer {
template std::optional<double> train_policy(any_device&, const options&, parallel::any_communicator*);
}  // namespace trainer
RLCORE_END
