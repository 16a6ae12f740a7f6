// A KL estimator chosen at run time.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/divergence/kl_kind.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// The divergence that `kind` names; where `straight` it keeps its value but has the slope of k2 (verl's names ending
/// in "+"). One piece with a switch, not one type per kind: every further objective costs a trainer's build its loop.
struct any_divergence {
  static constexpr field reads = field::logp | field::ref_logp;
  static constexpr std::string_view name = "kl";
  kl_kind kind = kl_kind::k3;
  bool straight = false;
  bool absent = false;  ///< 0 everywhere, also where a log-prob is infinite: the term is switched off

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    if (absent) return {V(0), V(0)};
    term<V> result = value_and_slope<Math, V>(t);
    if (straight) result.slope = t.logp - t.ref_logp;
    return result;
  }

 private:
  template <class Math, class V>
  RLCORE_FN term<V> value_and_slope(const token<V>& t) const noexcept {
    switch (kind) {
      case kl_kind::k1:
        return k1{}.template operator()<Math, V>(t);
      case kl_kind::abs_kl:
        return abs_kl{}.template operator()<Math, V>(t);
      case kl_kind::k2:
        return k2{}.template operator()<Math, V>(t);
      case kl_kind::k3:
        break;
    }
    return clamped_k3{}.template operator()<Math, V>(t);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
