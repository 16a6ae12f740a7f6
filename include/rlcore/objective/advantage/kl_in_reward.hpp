// The KL penalty as part of the reward.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>

#include "rlcore/objective/piece/divergence/kl_kind.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// What the KL penalty did to one response.
struct shaped_reward {
  double reward = 0;  ///< sum of the token rewards: score - coefficient * kl
  double kl = 0;      ///< sum of the estimator over the tokens
  /// The same per token; 0 for an empty response. verl's logs and the controllers use its mean over rows.
  double mean_kl = 0;
};

namespace detail {

/// The body of kl_in_reward and divergence_in_reward.
template <class Divergence, class T>
shaped_reward shape_reward(const Divergence& divergence, double coefficient, double score, std::span<const T> old_logp,
                           std::span<const T> ref_logp, std::span<T> reward) {
  const std::size_t tokens = old_logp.size();
  if (ref_logp.size() != tokens || (!reward.empty() && reward.size() != tokens))
    throw std::invalid_argument("rlcore: old_logp is [" + std::to_string(tokens) + "], ref_logp is [" +
                                std::to_string(ref_logp.size()) + "], reward is [" + std::to_string(reward.size()) +
                                "]");
  shaped_reward result;
  for (std::size_t t = 0; t < tokens; ++t) {
    token<double> x{};
    x.logp = static_cast<double>(old_logp[t]), x.ref_logp = static_cast<double>(ref_logp[t]);
    const double kl = divergence.template operator()<exact_math, double>(x).value;
    result.kl += kl;
    if (!reward.empty()) reward[t] = static_cast<T>((t + 1 == tokens ? score : 0.0) - coefficient * kl);
  }
  result.reward = score - coefficient * result.kl;
  result.mean_kl = tokens > 0 ? result.kl / static_cast<double>(tokens) : 0.0;
  return result;
}

}  // namespace detail

/// Token rewards r_t = -coefficient kl_t, plus the score at the last token (verl's use_kl_in_reward; the estimator
/// looks at the old policy, so this carries no gradient). All tokens given are live.
struct kl_in_reward {
  kl_kind kind = kl_kind::k1;
  double coefficient = 0.001;

  /// One response. `reward` may be empty if only the totals are wanted. Throws std::invalid_argument if sizes differ.
  shaped_reward operator()(double score, std::span<const float> old_logp, std::span<const float> ref_logp,
                           std::span<float> reward = {}) const {
    return visit_divergence(kind, [&](auto estimator) {
      return detail::shape_reward<decltype(estimator), float>(estimator, coefficient, score, old_logp, ref_logp,
                                                              reward);
    });
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
