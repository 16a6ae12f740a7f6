// The algorithm that verl's command line describes, every choice made at run time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "rlcore/objective/selection/by_covariance.hpp"
#include "rlcore/trainer/policy/algorithm/algorithm.hpp"
#include "rlcore/trainer/policy/algorithm/openrlhf_advantage.hpp"
#include "rlcore/trainer/policy/algorithm/select_tokens.hpp"
#include "rlcore/trainer/policy/algorithm/verl_advantage.hpp"
#include "rlcore/trainer/policy/algorithm/verl_policy_loss.hpp"

RLCORE_BEGIN
namespace trainer {

/// Any of verl's advantages, or OpenRLHF's, and any of verl's actor losses: what the trainers driven by a command line
/// run.
struct verl_algorithm {
  verl_policy_loss policy{};
  verl_advantage advantage{};
  std::optional<openrlhf_advantage> other{};  ///< instead of `advantage`
  clip_covariance clip_cov{};                 ///< of loss_mode clip_cov: which tokens; its clip is the policy's
  kl_covariance kl_cov{};                     ///< of loss_mode kl_cov

  field reads() const noexcept {
    return (policy.use_kl ? field::ref_logp : field::none) | (policy.entropy_coeff != 0 ? field::entropy : field::none);
  }
  advantage_inputs inputs() const noexcept { return other ? other->inputs() : advantage.inputs(); }
  /// The advantages by `other` or `advantage`, then the tokens of clip_cov or kl_cov, if the loss is one of these.
  void advantages(std::span<trajectory> batch, std::int64_t samples, random_key key) const {
    if (other)
      (*other)(batch, samples);
    else
      advantage(batch, samples);
    if (policy.mode == policy_loss_mode::clip_cov) {
      clip_covariance rule = clip_cov;
      rule.clip_low = policy.clip_low, rule.clip_high = policy.clip_high;
      select_tokens(rule, batch, key);
    } else if (policy.mode == policy_loss_mode::kl_cov) {
      select_tokens(kl_cov, batch, key);
    }
  }
  /// As verl_policy_loss.
  policy_report loss(const policy_micro_batch& rows, const global_counts& step, std::span<float> dlogp,
                     std::span<float> dentropy) const {
    return policy(rows, step, dlogp, dentropy);
  }
  /// The weight of the loss's aggregation.
  double entropy_weight(row_info row, const global_counts& step) const noexcept {
    return any_aggregation{policy.aggregation, policy.fixed_length}.weight(row, step);
  }
};

}  // namespace trainer
RLCORE_END
