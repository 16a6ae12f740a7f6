// Opens the reward source set on the command line.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

#include "rlcore/parallel/world.hpp"
#include "rlcore/train/policy/reward/command_rewards.hpp"
#include "rlcore/train/policy/reward/model_rewards.hpp"
#include "rlcore/train/policy/reward/reward_settings.hpp"
#include "rlcore/train/policy/reward/reward_source.hpp"

RLCORE_BEGIN
namespace train {

/// Rules, an external program, a reward model or an agent, with the reward manager's additions. `custom_rewards`
/// replaces the rules, the program or the model. Throws rlcore::error when the source cannot be opened.
class opened_rewards {
 public:
  /// `policy_folder` holds the trained model: a reward model compares its tokenizer with its own. `ranks` share a
  /// reward model and must outlive this object.
  template <class Device>
  opened_rewards(Device& device, const reward_settings& s, const std::filesystem::path& policy_folder,
                 std::size_t logits_bytes, parallel::world& ranks, reward_source* custom_rewards = nullptr) {
    if (custom_rewards != nullptr && (s.external || s.model || s.agent || s.stored))
      throw config_error(
          "this program brings its own reward function: leave out custom_reward_function.path, rlcore.reward_command, "
          "rlcore.agent_func_path, rlcore.replay_scores and reward_model.enable");
    if (custom_rewards == nullptr) {
      if (s.model)
        source_ = std::make_unique<model_rewards<Device>>(device, *s.model, policy_folder, logits_bytes, ranks);
      else if (s.external)
        source_ = std::make_unique<command_rewards>(*s.external, s.dapo_manager);
      else if (s.stored)
        source_ = std::make_unique<stored_rewards>();
      else if (s.agent)
        source_ = std::make_unique<agent_rewards>(s.turn_rewards);
      else
        source_ = std::make_unique<rule_rewards>(s.dapo_manager, verify::rules_of(s.version));
    }
    used_ = custom_rewards != nullptr ? custom_rewards : source_.get();
    if (s.dapo_manager) used_ = (managed_ = std::make_unique<managed_rewards>(*used_, s.overlong)).get();
  }
  reward_source& operator*() const noexcept { return *used_; }
  reward_source* operator->() const noexcept { return used_; }

 private:
  std::unique_ptr<reward_source> source_, managed_;
  reward_source* used_ = nullptr;
};

}  // namespace train
RLCORE_END
