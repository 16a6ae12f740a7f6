// Keys of verl's main_ppo (state of August 2025) for grpo_trainer, ppo_trainer and reinforce_plus_plus_trainer, and of
// verl's recipe.dapo.main_dapo for dapo_trainer; our own keys and OpenRLHF's flags beside them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/config/checks/policy_checks.hpp"
#include "rlcore/config/keys/openrlhf_ppo_flags.hpp"
#include "rlcore/config/keys/rlcore_keys.hpp"
#include "rlcore/config/keys/verl/actor_keys.hpp"
#include "rlcore/config/keys/verl/newer_keys.hpp"
#include "rlcore/config/keys/verl/rollout_keys.hpp"
#include "rlcore/config/keys/verl/trainer_keys.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/config/programs/config_presets.hpp"
#include "rlcore/config/registry.hpp"

RLCORE_BEGIN
namespace train {

/// For the table of another trainer, copy this, change `program`, and add() sections that replace or extend keys.
registry main_ppo_registry();

/// The same for a trainer of `program` with `estimator` as default, with the flags of OpenRLHF's train_ppo_ray.
registry main_ppo_registry(std::string program, std::string summary, const key& estimator);

registry ppo_trainer_registry();

namespace keys {

/// The flag --advantage_estimator with another default than OpenRLHF's.
constexpr key openrlhf_estimator_by_default(std::string_view word) {
  return {"advantage_estimator",
          text,
          word,
          honoured,
          "advantage estimator; reinforce is REINFORCE++",
          words("gae|reinforce|rloo|reinforce_baseline|group_norm|dr_grpo")};
}

}  // namespace keys

registry grpo_trainer_registry();

registry reinforce_plus_plus_trainer_registry();

namespace keys {

inline constexpr key dapo[] = {
    {"reward_model.reward_manager", text, "dapo", honoured,
     "naive, batch, prime: the score as it is; dapo: also acc and the overlong penalty",
     words("naive|dapo|batch|prime")},
    {"trainer.project_name", text, "verl-dapo", honoured, "first part of the run's name"},
};

}  // namespace keys

registry dapo_registry();

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE registry main_ppo_registry() {
  registry known;
  known.program = "grpo_trainer";
  known.summary = "group relative policy optimization of a language model on rewards";
  known.config_name = "ppo_trainer";
  known.config_names = {"ppo_trainer", "ppo_megatron_trainer"};
  for (const config_preset& preset : config_presets) known.config_names.emplace_back(preset.name);
  known.later_config_names = {"dapo_trainer", "dapo_megatron_trainer", "sft_trainer"};
  known.spellings = keys::spellings;
  known.topics = keys::verl_topics;
  known.check = check_policy_options;
  known.add(keys::data).add(keys::model).add(keys::actor).add(keys::rollout).add(keys::reference);
  known.add(keys::algorithm)
      .add(keys::reward)
      .add(keys::critic)
      .add(keys::trainer)
      .add(keys::ranks)
      .add(keys::sharing)
      .add(keys::device)
      .add(keys::own_run)
      .add(keys::own_reward)
      .add(keys::images)
      .add(keys::image_pixels);
  known.add(keys::megatron).add(keys::further).add(keys::newer);
  known.add_flags(keys::own_flags).add_flags(keys::policy_flags);
  return known;
}

RLCORE_INLINE registry main_ppo_registry(std::string program, std::string summary, const key& estimator) {
  registry known = main_ppo_registry();
  known.program = std::move(program), known.summary = std::move(summary);
  known.add(std::span(&estimator, 1));
  known.add_as_flags(keys::openrlhf_ppo).add_as_flags(keys::openrlhf_machine);
  constexpr flag pairs[] = {{"reward_clip_range", "reward_clip_range", 2}, {"adam_betas", "adam_betas", 2}};
  known.add_flags(pairs).add_flags(keys::openrlhf_ppo_flags);
  known.check = [](options& opt) {
    apply_openrlhf_flags(opt);
    check_policy_options(opt);
  };
  return known;
}

RLCORE_INLINE registry ppo_trainer_registry() {
  constexpr key estimator = keys::estimator_by_default("gae");
  return main_ppo_registry("ppo_trainer", "proximal policy optimization of a language model, with a critic", estimator);
}

RLCORE_INLINE registry grpo_trainer_registry() {
  constexpr key estimator = keys::estimator_by_default("grpo");
  constexpr key flag_default = keys::openrlhf_estimator_by_default("group_norm");
  const registry verl = main_ppo_registry();
  return main_ppo_registry(verl.program, verl.summary, estimator).add(std::span(&flag_default, 1));
}

RLCORE_INLINE registry reinforce_plus_plus_trainer_registry() {
  constexpr key estimator = keys::estimator_by_default("reinforce_plus_plus");
  registry known =
      main_ppo_registry("reinforce_plus_plus_trainer",
                        "REINFORCE++: policy gradients without a critic, normalised over the batch", estimator);
  constexpr key flag_default = keys::openrlhf_estimator_by_default("reinforce");
  known.add(std::span(&flag_default, 1));
  return known;
}

RLCORE_INLINE registry dapo_registry() {
  registry known = grpo_trainer_registry();
  known.program = "dapo_trainer";
  known.summary = "DAPO: dynamic sampling, clip-higher, token-level loss, overlong reward shaping";
  known.check = [](options& opt) {
    apply_openrlhf_flags(opt);
    const bool by_flags = detail::any_openrlhf_flag(opt);
    const bool dapo = opt.get<bool>("algorithm.filter_groups.enable") ||
                      opt.is_set("actor_rollout_ref.actor.clip_ratio_high") ||
                      opt.get<bool>("reward_model.overlong_buffer.enable");
    if (by_flags && !dapo)
      opt.note(
          "this is GRPO: OpenRLHF's flags have nothing of DAPO; add algorithm.filter_groups.enable=True "
          "algorithm.filter_groups.metric=acc actor_rollout_ref.actor.clip_ratio_high=0.28 or "
          "reward_model.overlong_buffer.enable=True reward_model.overlong_buffer.len=...");
    check_policy_options(opt);
  };
  known.config_name = "dapo_trainer";
  known.config_names = {"dapo_trainer", "dapo_megatron_trainer", "ppo_trainer", "ppo_megatron_trainer"};
  known.later_config_names = {"sft_trainer"};
  return known.add(keys::dapo);
}

}  // namespace train
RLCORE_END
#endif
