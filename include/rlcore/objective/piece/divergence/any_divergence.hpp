// A divergence chosen at run time.
#pragma once

#include <cstdint>
#include <string_view>

#include "rlcore/objective/piece/divergence/kl.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// verl's kl or k1, abs, mse or k2, low_var_kl or k3 (clamped).
enum class kl_kind : std::uint8_t { k1, abs_kl, k2, k3 };

/// f(piece) with the piece that `kind` names; all calls must return the same type.
template <class F>
constexpr auto visit_divergence(kl_kind kind, F&& f) {
  switch (kind) {
    case kl_kind::k1:
      return f(k1{});
    case kl_kind::abs_kl:
      return f(abs_kl{});
    case kl_kind::k2:
      return f(k2{});
    case kl_kind::k3:
      break;
  }
  return f(clamped_k3{});
}

/// The divergence that `kind` names; where `straight` it keeps its value but has the slope of k2 (verl's names ending
/// in "+"). One piece with a switch, not one type per kind: every further objective adds a loop to a trainer's build.
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
