// Checks that the responses of a run fit into memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <string>

#include "rlcore/config/settings/batch_plan.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/nn/vision/vision_cost.hpp"
#include "rlcore/trainer/policy/picture_memory.hpp"
#include "rlcore/trainer/policy/settings.hpp"
#include "rlcore/trainer/policy/trajectory/trajectory_memory.hpp"
#include "rlcore/training/ranks/available_memory.hpp"
#include "rlcore/training/ranks/team.hpp"

RLCORE_BEGIN
namespace trainer {

/// Throws config_error if the responses of a step, or of a validation, or the images of one prompt cannot be in the
/// memory of this machine, which its `ranks` share; warns in `plan` if they, or those of a micro-batch, may not fit.
void check_memory(batch_plan& plan, const policy_settings& s, const nn::config& model,
                  const data::prompt_dataset& train, const data::prompt_dataset& val, const team& ranks);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINER)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE void check_memory(batch_plan& plan, const policy_settings& s, const nn::config& model,
                                const data::prompt_dataset& train, const data::prompt_dataset& val, const team& ranks) {
  const std::size_t share = ranks.least(available_memory().value_or(std::numeric_limits<std::size_t>::max()) /
                                        static_cast<std::size_t>(ranks.of_this_machine()));
  const std::string rollout = "actor_rollout_ref.rollout.";
  for (const std::string& warning :
       {check_memory({rollout + "n", std::max(plan.prompts_per_step, plan.prompts_per_round), plan.samples_per_prompt,
                      "it or data.train_batch_size"},
                     mean_tokens(train), s.max_response_length, share),
        check_memory({rollout + "val_kwargs.n", s.val_before_train || s.test_freq > 0 ? std::ssize(val.prompts) : 0,
                      s.val_samples, "it or data.val_max_samples"},
                     mean_tokens(val), s.max_response_length, share)})
    if (!warning.empty()) plan.warnings.push_back(warning);
  if (!model.vision) return;
  const auto keeps = s.freeze_vision_tower     ? nn::tower_keeps::nothing
                     : s.recompute_activations ? nn::tower_keeps::inputs
                                               : nn::tower_keeps::activations;
  check_picture_memory(val, {*model.vision, nn::tower_keeps::nothing, 1}, share);
  const std::string warning = check_picture_memory(
      train, {*model.vision, keeps, std::max<std::int64_t>(1, plan.micro_batch_trajectories)}, share);
  if (!warning.empty()) plan.warnings.push_back(warning);
}

}  // namespace trainer
RLCORE_END
#endif
