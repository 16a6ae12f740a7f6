// Declarations of what a policy recipe opens: inputs and models behind pointers.
#pragma once

#include <memory>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace trainer {

class any_algorithm;
class options;
class reward_source;
class team;

/// Tokenizer, prompts, rewards, and the plan of the batches: inputs.hpp.
struct policy_inputs;
/// Policy, rollout model, reference, critic: models.hpp.
template <class Device>
class policy_models;

/// Opens everything, prints a summary, and plans the batches. `custom_rewards` replaces the rewards set by `opt`.
/// Throws rlcore::error for every error detectable now. inputs.hpp defines it.
template <class Device>
std::shared_ptr<policy_inputs> open_policy_inputs(Device& device, const options& opt, const team& ranks,
                                                  reward_source* custom_rewards = nullptr);

/// The models that `algorithm` needs, without their weights: a reference where its loss reads ref_logp, a critic where
/// its advantages read values. Adds to the settings of `in` what depends on the device and the ranks. Says what was
/// made. Throws config_error. models.hpp defines it.
template <class Device>
std::shared_ptr<policy_models<Device>> open_policy_models(Device& device, const options& opt, policy_inputs& in,
                                                          const any_algorithm& algorithm, const team& ranks);

}  // namespace trainer
RLCORE_END
