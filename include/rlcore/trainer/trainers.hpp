// Whole runs from a command line, declared. A program that links rlcore::trainers (CMake), where they are compiled for
// any_device, includes this header and compiles in seconds; any other program, and one that means another device,
// includes what defines the run it wants: policy/train_policy.hpp, supervised/train_sft.hpp, preference/train.hpp,
// evaluation/evaluate.hpp.
#pragma once

#include <optional>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
class any_device;

namespace parallel {
class any_communicator;
}

namespace trainer {

class any_algorithm;
class options;
class reward_source;

/// Runs verl's main_ppo as `opt` says, with advantages and loss from `algorithm`, which any policy_algorithm turns into
/// (policy/any_algorithm.hpp); `quiet` leaves out everything that is printed besides the steps (trainer.logger decides
/// about those); `own` scores instead of what `opt` names; `all` are the ranks of the run (on_ranks), of which the
/// first writes and prints. Returns the last validation reward. Throws rlcore::error before the first step for
/// everything that can be known by then.
template <class Device>
std::optional<double> train_policy(Device& device, const options& opt, const any_algorithm& algorithm,
                                   bool quiet = false, reward_source* own = nullptr,
                                   parallel::any_communicator* all = nullptr);

/// The same with the algorithm that `opt` describes in verl's terms.
template <class Device>
std::optional<double> train_policy(Device& device, const options& opt, parallel::any_communicator* all = nullptr);

/// Supervised fine-tuning with the command line of verl or OpenRLHF. Throws rlcore::error before the first step for
/// everything that can be known by then, as all runs here do.
template <class Device>
void train_sft(Device& device, const options& opt, parallel::any_communicator* all = nullptr);

/// DPO (Rafailov et al. 2023) and its relatives with --ipo, --label_smoothing, --nll_loss_coef.
template <class Device>
void train_dpo(Device& device, const options& opt, parallel::any_communicator* all = nullptr);

/// KTO (Ethayarajh et al. 2024).
template <class Device>
void train_kto(Device& device, const options& opt, parallel::any_communicator* all = nullptr);

/// A reward model (Ouyang et al. 2022). Without --eval_dataset the first hundredth of the training rows gives the mean
/// and deviation of rewards that config.json holds.
template <class Device>
void train_rm(Device& device, const options& opt, parallel::any_communicator* all = nullptr);

/// A process reward model (Lightman et al. 2023) that judges in tokens of the vocabulary.
template <class Device>
void train_prm(Device& device, const options& opt, parallel::any_communicator* all = nullptr);

/// Samples and judges responses, or judges those that `responses` names, which needs no device: nullptr. Prints the
/// table, writes generations.jsonl and result.json into output_dir. Of several `ranks` the first does.
template <class Device>
void evaluate(Device* device, const options& opt, parallel::any_communicator* ranks = nullptr);

#if defined(RLCORE_COMPILED)
extern template std::optional<double> train_policy(any_device&, const options&, const any_algorithm&, bool,
                                                   reward_source*, parallel::any_communicator*);
extern template std::optional<double> train_policy(any_device&, const options&, parallel::any_communicator*);
extern template void train_sft(any_device&, const options&, parallel::any_communicator*);
extern template void train_dpo(any_device&, const options&, parallel::any_communicator*);
extern template void train_kto(any_device&, const options&, parallel::any_communicator*);
extern template void train_rm(any_device&, const options&, parallel::any_communicator*);
extern template void train_prm(any_device&, const options&, parallel::any_communicator*);
extern template void evaluate(any_device*, const options&, parallel::any_communicator*);
#endif

}  // namespace trainer
RLCORE_END
