// Reads the algorithm from a command line.
#pragma once

#include <string>
#include <type_traits>

#include "rlcore/config/algorithm/advantage_estimators.hpp"
#include "rlcore/config/algorithm/openrlhf_estimators.hpp"
#include "rlcore/config/algorithm/verl_version.hpp"
#include "rlcore/trainer/policy/algorithm/any_estimator.hpp"
#include "rlcore/trainer/policy/algorithm/composed_algorithm.hpp"
#include "rlcore/trainer/policy/algorithm/make_policy_loss.hpp"
#include "rlcore/trainer/policy/algorithm/openrlhf_advantage.hpp"
#include "rlcore/trainer/policy/open.hpp"
#include "rlcore/trainer/policy/settings.hpp"

RLCORE_BEGIN
namespace trainer {

/// The estimator and the policy loss that `opt` names: algorithm.* and actor_rollout_ref.actor.*. Throws config_error.
composed_algorithm<any_estimator, any_policy_loss> read_algorithm(const options& opt);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINER)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE any_estimator read_estimator(const options& opt) {
  const std::string key = "algorithm.adv_estimator", word = opt.get<std::string>(key);
  const estimator_settings settings{opt.get<double>("algorithm.gamma"), opt.get<double>("algorithm.lam"),
                                    opt.get<bool>("algorithm.norm_adv_by_std_in_grpo"), read_verl_version(opt)};
  if (opt.get<std::string>("rlcore.advantages") != "openrlhf")
    return estimator_words::visit(key, word, [&](auto row) -> any_estimator { return row.compose(settings); });
  const auto range = read_pair(opt, "rlcore.reward_clip_range", "two numbers in order, e.g. [-10,10]",
                               [](double low, double high) { return low <= high; });
  return openrlhf_estimator_words::visit(key, word, [&](auto row) -> any_estimator {
    const auto recipe = row.compose(settings);
    return openrlhf_advantage<std::remove_const_t<decltype(recipe)>>{
        recipe, {range.first, range.second}, opt.get<bool>("rlcore.scale_advantages")};
  });
}

RLCORE_INLINE any_policy_loss read_loss(const options& opt) { return make_policy_loss(read_policy_loss(opt)); }

RLCORE_INLINE composed_algorithm<any_estimator, any_policy_loss> read_algorithm(const options& opt) {
  return {read_estimator(opt), read_loss(opt)};
}

}  // namespace trainer
RLCORE_END
#endif
