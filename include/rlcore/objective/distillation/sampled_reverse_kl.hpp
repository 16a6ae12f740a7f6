// Reverse KL from the sampled token alone.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// sg(logp - ref_logp) logp with the teacher as reference: the policy gradient of KL(student || teacher) (SDPO "sampled
/// token", TRL). slope: logp - ref_logp. The value means nothing; see k1 for the divergence.
struct sampled_reverse_kl {
  static constexpr field reads = field::logp | field::ref_logp;
  static constexpr std::string_view name = "sampled_reverse_kl";
  static constexpr bool stops_gradient = true;

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V d = t.logp - t.ref_logp;
    return {d * t.logp, d};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
