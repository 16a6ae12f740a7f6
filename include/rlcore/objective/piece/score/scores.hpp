// What a sequence is judged by: per-token quantities that are summed or averaged over its live tokens.
//
// `unit_slope` says that the slope is 1 everywhere; the loop then writes one number to the whole row.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// logp: the log-likelihood of a sequence (SimPO, ORPO, CPO).
struct log_prob {
  static constexpr field reads = field::logp;
  static constexpr std::string_view name = "log_prob";
  static constexpr bool unit_slope = true;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.logp, V(1)};
  }
};

/// logp - ref_logp: the implicit reward of DPO, IPO, KTO.
struct log_ratio_to_reference {
  static constexpr field reads = field::logp | field::ref_logp;
  static constexpr std::string_view name = "log_ratio_to_reference";
  static constexpr bool unit_slope = true;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.logp - t.ref_logp, V(1)};
  }
};

/// logp - old_logp: the log importance ratio of GSPO, GMPO.
struct log_ratio_to_old {
  static constexpr field reads = field::logp | field::old_logp;
  static constexpr std::string_view name = "log_ratio_to_old";
  static constexpr bool unit_slope = true;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.logp - t.old_logp, V(1)};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
