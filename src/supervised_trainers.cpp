// The supervised trainers on a device chosen at run time, compiled once for many programs (the targets
// rlcore::trainers and rlcore::supervised_trainers).
#include "rlcore/trainer/preference/train.hpp"
#include "rlcore/trainer/supervised/train_sft.hpp"

RLCORE_BEGIN
namespace trainer {
template void train_sft(any_device&, const options&, parallel::any_communicator*);
template void train_dpo(any_device&, const options&, parallel::any_communicator*);
template void train_kto(any_device&, const options&, parallel::any_communicator*);
template void train_rm(any_device&, const options&, parallel::any_communicator*);
template void train_prm(any_device&, const options&, parallel::any_communicator*);
}  // namespace trainer
RLCORE_END
