// On-policy distillation whose early tokens weigh more.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// -w a logp with a = sg(ref_logp - rollout_logp), the teacher as reference, and field::weight w as prefix_weights
/// makes it (IW-OPD, TRL). slope: -w a. The weight is no off-policy correction: weighted{} has no part in it.
struct iw_opd {
  static constexpr field reads = field::logp | field::ref_logp | field::rollout_logp | field::weight;
  static constexpr std::string_view name = "distillation";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V a = t.weight * (t.ref_logp - t.rollout_logp);
    return {-(a * t.logp), -a};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
