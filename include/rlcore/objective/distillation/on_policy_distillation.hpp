// The teacher's opinion of what the student sampled, as an advantage.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// -a logp with a = sg(ref_logp - rollout_logp), the teacher as reference. slope: -a. The
/// policy gradient with the negative k1 as advantage (verl "use_policy_gradient"); with weights, see iw_opd.
struct on_policy_distillation {
  static constexpr field reads = field::logp | field::ref_logp | field::rollout_logp;
  static constexpr std::string_view name = "distillation";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V a = t.ref_logp - t.rollout_logp;
    return {-(a * t.logp), -a};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
