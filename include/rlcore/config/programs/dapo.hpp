// The keys of dapo_trainer: verl's recipe.dapo.main_dapo, which is main_ppo with another default of the reward manager;
// and OpenRLHF's flags.
#pragma once

#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/config/programs/trainer_registries.hpp"

RLCORE_BEGIN
namespace trainer {

namespace keys {

inline constexpr key dapo[] = {
    {"reward_model.reward_manager", text, "dapo", honoured,
     "naive, batch, prime: the score as it is; dapo: also acc and the overlong penalty",
     words("naive|dapo|batch|prime")},
    {"trainer.project_name", text, "verl-dapo", honoured, "first part of the run's name"},
};

}  // namespace keys

registry dapo_registry();

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace trainer {

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

}  // namespace trainer
RLCORE_END
#endif
