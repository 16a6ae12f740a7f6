// The policy trainers and evaluation, which sample alike, on a device chosen at run time, compiled once for many
// programs (the targets rlcore::trainers and rlcore::policy_trainers).
#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/train/evaluation/evaluate.hpp"
#include "rlcore/train/policy/train_policy.hpp"
#include "rlcore/train/run/trainer_main_on_ranks.hpp"

RLCORE_BEGIN
namespace train {
// train/run/trainers.hpp
template std::optional<double> train_policy(any_device&, const options&, const any_algorithm&, bool, reward_source*,
                                            parallel::any_communicator*);
template std::optional<double> train_policy(any_device&, const options&, parallel::any_communicator*);
template void evaluate(any_device*, const options&, parallel::any_communicator*);

// train/policy/parts.hpp
template std::shared_ptr<policy_inputs> open_policy_inputs(any_device&, const options&, const team&, reward_source*,
                                                           agent::tools);
template std::shared_ptr<policy_models<any_device>> open_policy_models(any_device&, const options&,
                                                                       const policy_inputs&, const any_algorithm&,
                                                                       const team&);
template std::unique_ptr<policy_run> open_policy_run(const options&, policy_inputs&, policy_models<any_device>&,
                                                     const team&);
}  // namespace train
RLCORE_END
