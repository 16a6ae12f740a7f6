// Declarations of what a policy recipe opens: inputs and models behind pointers.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "rlcore/config/algorithm/policy_losses.hpp"
#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace agent {
class tool;
}  // namespace agent

namespace train {

class any_algorithm;
class options;
class reward_source;
class team;

/// Tokenizer, prompts, rewards, and the plan of the batches: inputs.hpp.
struct policy_inputs;
/// Policy, rollout model, reference, critic: models.hpp.
template <class Device>
class policy_models;

/// verl's actor loss: actor_rollout_ref.actor.*. settings.hpp defines it.
policy_loss_settings read_policy_loss(const options& opt);

/// The words of the command line for the parts that a recipe has composed itself.
struct recipe_words {
  std::string_view adv_estimator, loss_mode = "vanilla";
};

/// Where the command line names another part than `own`, puts that part into the place of the recipe's:
/// algorithm.adv_estimator, also in OpenRLHF's way (rlcore.advantages=openrlhf), and
/// actor_rollout_ref.actor.policy_loss.loss_mode. Throws config_error. algorithm/named_algorithm.hpp defines it.
void replace_named_parts(any_algorithm& recipe, const options& opt, const recipe_words& own);

/// Opens everything, prints a summary, and plans the batches. `custom_rewards` replaces the rewards set by `opt`;
/// `custom_tools` are offered beside those of `opt`.
/// Throws rlcore::error for every error detectable now. inputs.hpp defines it.
template <class Device>
std::shared_ptr<policy_inputs> open_policy_inputs(Device& device, const options& opt, const team& ranks,
                                                  reward_source* custom_rewards = nullptr,
                                                  std::vector<std::shared_ptr<agent::tool>> custom_tools = {});

/// The models that `algorithm` needs, without their weights: a reference where its loss reads ref_logp, a critic where
/// its advantages read values. Says what was
/// made. Throws config_error. models.hpp defines it.
template <class Device>
std::shared_ptr<policy_models<Device>> open_policy_models(Device& device, const options& opt, const policy_inputs& in,
                                                          const any_algorithm& algorithm, const team& ranks);

}  // namespace train
RLCORE_END
