// An estimator's value with the gradient of KL(policy || reference).
#pragma once

#include "rlcore/objective/piece/combine/straight_through.hpp"
#include "rlcore/objective/piece/divergence/k2.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// The names that end in "+" in verl, e.g. with_kl_gradient(clamped_k3{}) for k3+: the value of `estimator`, and the
/// slope logp - ref_logp, whose on-policy expectation is the gradient of KL(policy || reference). It makes k1 and
/// absolute usable as losses.
template <class Estimator>
constexpr straight_through<Estimator, k2> with_kl_gradient(Estimator estimator) noexcept {
  return {estimator, k2{}};
}

RLCORE_ALGORITHM_END
RLCORE_END
