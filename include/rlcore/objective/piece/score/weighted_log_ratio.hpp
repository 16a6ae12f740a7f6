// Log-ratios whose tokens count differently.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// weight (logp - ref_logp), slope weight: LD-DPO with the weights of ld_dpo_weights.
struct weighted_log_ratio_to_reference {
  static constexpr field reads = field::logp | field::ref_logp | field::weight;
  static constexpr std::string_view name = "weighted_log_ratio_to_reference";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.weight * (t.logp - t.ref_logp), t.weight};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
