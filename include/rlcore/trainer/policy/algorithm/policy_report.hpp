// Report of a policy loss over the micro-batches of a step.
#pragma once

#include <cstdint>

#include "rlcore/simd/exact_sum.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Sums of one or more micro-batches of a policy loss; join with +=.
struct policy_report {
  exact_sum policy, kl, entropy;             ///< aggregated, without coefficients
  exact_sum clipped, clipped_lower, ppo_kl;  ///< sums over tokens
  exact_sum kl_total, entropy_total;         ///< sums over tokens
  double kl_coefficient = 0, entropy_coefficient = 0;
  std::int64_t tokens = 0, sequences = 0, rows = 0;

  double policy_loss() const noexcept { return policy.value(); }
  double kl_loss() const noexcept { return kl.value(); }
  double entropy_value() const noexcept { return entropy.value(); }
  double loss() const noexcept {
    return policy_loss() + kl_coefficient * kl_loss() - entropy_coefficient * entropy_value();
  }
  double clip_fraction() const noexcept { return mean(clipped); }
  double clip_fraction_lower() const noexcept { return mean(clipped_lower); }
  double ppo_kl_mean() const noexcept { return mean(ppo_kl); }
  double kl_mean() const noexcept { return mean(kl_total); }
  double entropy_mean() const noexcept { return mean(entropy_total); }

  /// Joins the sums of another part of the step.
  policy_report& operator+=(const policy_report& o) noexcept {
    policy += o.policy, kl += o.kl, entropy += o.entropy;
    clipped += o.clipped, clipped_lower += o.clipped_lower, ppo_kl += o.ppo_kl;
    kl_total += o.kl_total, entropy_total += o.entropy_total;
    if (o.rows > 0) kl_coefficient = o.kl_coefficient, entropy_coefficient = o.entropy_coefficient;
    tokens += o.tokens, sequences += o.sequences, rows += o.rows;
    return *this;
  }

 private:
  double mean(const exact_sum& s) const noexcept { return tokens > 0 ? s.value() / static_cast<double>(tokens) : 0.0; }
};

RLCORE_ALGORITHM_END
RLCORE_END
