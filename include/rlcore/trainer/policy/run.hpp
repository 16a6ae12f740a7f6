// What a policy run is made of.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "rlcore/config/settings/batch_plan.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/trainer/policy/actor.hpp"
#include "rlcore/trainer/policy/algorithm/verl_algorithm.hpp"
#include "rlcore/trainer/policy/critic.hpp"
#include "rlcore/trainer/policy/reward/reward_source.hpp"
#include "rlcore/trainer/policy/rollout_model.hpp"
#include "rlcore/trainer/policy/settings.hpp"
#include "rlcore/trainer/policy/trajectory/replay.hpp"

RLCORE_BEGIN
namespace trainer {

/// Everything a run is made of, opened and checked: nothing is trained before all of it exists.
template <class Device, policy_algorithm Algorithm = verl_algorithm>
struct policy_run {
  const policy_settings& settings;
  const Algorithm& algorithm;
  const batch_plan& plan;
  const text::tokenizer& tokenizer;
  std::filesystem::path model_folder;
  const data::prompt_dataset& train;
  const data::prompt_dataset* val = nullptr;
  actor<Device>& policy;
  reward_source& rewards;
  nn::causal_lm<Device>* reference = nullptr;  ///< present iff a KL needs it; with LoRA policy.model, adapters off
  std::vector<std::int32_t> eos_ids;
  critic<Device>* value_model = nullptr;  ///< present iff advantages read values, or critic.enable
  const replay* stored = nullptr;    ///< responses to take instead of sampling; old log-probs are then computed again
  parallel::world* ranks = nullptr;  ///< that share the work; nullptr: there is one
  rollout_model<Device>* rollout = nullptr;  ///< samples instead of policy.model; nullptr: that has all it takes
};

/// Purposes of the run's seed; numbers of one never meet those of another.
enum class stream : std::uint32_t { rollout = 1, validation, mini_batches, selection, greedy, critic_mini_batches };

/// The random numbers for a purpose in the step or round `number`.
inline random_key key_of(const policy_settings& s, stream purpose, std::int64_t number) {
  return random_key{s.seed}.child(static_cast<std::uint32_t>(purpose)).child(static_cast<std::uint32_t>(number));
}

}  // namespace trainer
RLCORE_END
