// algorithm.*: advantages, KL in the reward, dynamic sampling.
#pragma once

#include <string_view>

#include "rlcore/config/algorithm/advantage_estimators.hpp"
#include "rlcore/config/key.hpp"

RLCORE_BEGIN
namespace trainer::keys {

/// algorithm.adv_estimator with this default: trainers differ in it.
constexpr key estimator_by_default(std::string_view name) noexcept {
  return {"algorithm.adv_estimator",      text, name, honoured, "advantage estimator; gae trains a critic",
          words(estimator_words::choices)};
}

inline constexpr key algorithm[] = {
    estimator_by_default("grpo"),
    {"algorithm.norm_adv_by_std_in_grpo", boolean, "True", honoured,
     "divide by the group's standard deviation (grpo, grpo_passk); False is Dr.GRPO"},
    {"algorithm.use_kl_in_reward", boolean, "False", honoured, "subtract the KL to the reference from the reward"},
    {"algorithm.kl_penalty", text, "kl", honoured, "KL estimator in the reward",
     words("kl|k1|abs|mse|k2|low_var_kl|k3", "full")},
    {"algorithm.kl_ctrl.type", text, "fixed", honoured, "controller of the coefficient in the reward",
     words("fixed|adaptive")},
    {"algorithm.kl_ctrl.kl_coef", real, "0.001", honoured,
     "coefficient of the KL in the reward (only with use_kl_in_reward)", finite_from(0)},
    {"algorithm.kl_ctrl.horizon", real, "10000", honoured, "adaptive controller: horizon in samples", at_least(1)},
    {"algorithm.kl_ctrl.target_kl", real, "0.1", honoured, "adaptive controller: KL aimed at"},
    {"algorithm.gamma", real, "1.0", honoured, "discount per token (gae, reinforce_plus_plus)", between(0, 1)},
    {"algorithm.lam", real, "1.0", honoured, "GAE's lambda", between(0, 1)},
    {"algorithm.use_pf_ppo", boolean, "False", fixed, "preference feedback PPO"},
    {"algorithm.pf_ppo.reweight_method", text, "pow", unused, "preference feedback PPO"},
    {"algorithm.pf_ppo.weight_pow", real, "2.0", unused, "preference feedback PPO"},
    {"algorithm.filter_groups.enable", boolean, "False", honoured,
     "dynamic sampling: train on groups whose answers differ, sample until there are enough"},
    {"algorithm.filter_groups.metric", text, "null", honoured, "by what the answers of a group differ",
     words("acc|score|seq_reward|seq_final_reward")},
    {"algorithm.filter_groups.max_num_gen_batches", integer, "0", honoured,
     "rounds of sampling in one step; the run then stops with a checkpoint. <= 0: no limit"},
};

}  // namespace trainer::keys
RLCORE_END
