// The algorithm that verl's command line describes, every choice made at run time.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>

#include "rlcore/objective/algorithm/verl_policy_loss.hpp"
#include "rlcore/trainer/policy/algorithm.hpp"
#include "rlcore/trainer/policy/collect.hpp"

RLCORE_BEGIN
namespace trainer {

/// Group-relative advantages and verl's actor loss: what grpo_trainer runs.
struct verl_algorithm {
  verl_policy_loss policy{};
  bool normalize_by_std = true;  ///< of group_relative

  field reads() const noexcept {
    return (policy.use_kl ? field::ref_logp : field::none) | (policy.entropy_coeff != 0 ? field::entropy : field::none);
  }
  void advantages(std::span<trajectory> batch, std::int64_t samples, random_key) const {
    assign_advantages(batch, samples, normalize_by_std);
  }
  policy_report loss(const policy_micro_batch& rows, const global_counts& step, std::span<float> dlogp,
                     std::span<float> dentropy) const {
    if (!rows.token_advantage.empty())
      throw std::invalid_argument("rlcore: verl_algorithm takes one advantage per trajectory");
    return policy(rows, step, dlogp, dentropy);
  }
  double entropy_weight(row_info row, const global_counts& step) const noexcept {
    return any_aggregation{policy.aggregation, policy.fixed_length}.weight(row, step);
  }
};

}  // namespace trainer
RLCORE_END
