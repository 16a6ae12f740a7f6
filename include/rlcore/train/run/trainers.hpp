// Declarations of whole runs from a command line, and of the main() of a trainer. The CMake target rlcore::trainers has
// them compiled for any_device: a program that links it includes this header and compiles in seconds. Any other
// program, and a program for another device, includes the header that defines its run: policy/train_policy.hpp or
// evaluation/evaluate.hpp. A recipe of your own is made of parts: policy/parts.hpp, preference/parts.hpp,
// supervised/parts.hpp.
#pragma once

#include <functional>
#include <optional>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
class any_device;

namespace parallel {
class any_communicator;
}

namespace train {

class any_algorithm;
class options;
class registry;
class reward_source;
class team;

/// Runs verl's main_ppo as `opt` says. `algorithm` gives the advantages and the loss; any policy_algorithm converts to
/// it (policy/algorithm/any_algorithm.hpp). `quiet` suppresses everything printed except the steps, which
/// trainer.logger controls. `custom_rewards` replaces the reward source that `opt` names. `world` holds the ranks of
/// the run (on_ranks); its first rank writes and prints. Returns the last validation reward. Throws rlcore::error
/// before the first step for everything that can be known by then.
template <class Device>
std::optional<double> train_policy(Device& device, const options& opt, const any_algorithm& algorithm,
                                   bool quiet = false, reward_source* custom_rewards = nullptr,
                                   parallel::any_communicator* world = nullptr);

/// The same with the algorithm that `opt` describes in verl's terms.
template <class Device>
std::optional<double> train_policy(Device& device, const options& opt, parallel::any_communicator* world = nullptr);

/// Samples and judges responses, or judges the stored ones that `responses` names. Stored responses need no device:
/// `device` may be nullptr. Prints the table, and writes generations.jsonl and result.json into output_dir. With
/// several `ranks` only the first prints and writes.
template <class Device>
void evaluate(Device* device, const options& opt, parallel::any_communicator* ranks = nullptr);
/// The same with the responses of the server at `server`, which have the bits of evaluate() with its model. Throws
/// config_error, data_error, and error for the server's errors. Link rlcore::server.
void evaluate_by_server(const options& opt);

#if defined(RLCORE_COMPILED)
/// In src/policy_trainers.cpp.
extern template std::optional<double> train_policy(any_device&, const options&, const any_algorithm&, bool,
                                                   reward_source*, parallel::any_communicator*);
/// In src/policy_trainers.cpp.
extern template std::optional<double> train_policy(any_device&, const options&, parallel::any_communicator*);
/// In src/policy_trainers.cpp.
extern template void evaluate(any_device*, const options&, parallel::any_communicator*);
#endif

/// The function that every rank of a trainer runs.
using trainer_function = std::function<void(any_device&, const options&, const team&)>;

/// Reads the command line by `known`, answers --help and the like, opens the device on every rank of this process, and
/// calls train(device, options, ranks) there. From then on messages name the flags that were typed in the place of
/// keys. Returns the exit code of main, as run_program().
int trainer_main(int argc, char** argv, const registry& known, const trainer_function& train);

}  // namespace train
RLCORE_END
