// What a log-ratio is worth under another divergence than the reverse KL: f'(pi / pi_ref), per unit of beta.
//
// Each is 0 for equal policies and is shown one sequence's score u; it returns the reward and its slope by u.
#pragma once

#include <cmath>
#include <string_view>

#include "rlcore/core/compiler.hpp"
#include "rlcore/objective/piece/term.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// u: the reverse KL, that is plain DPO.
struct reverse_kl_reward {
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const V& u) const noexcept {
    return {u, V(1)};
  }
};

/// 1 - e^-u.
struct forward_kl_reward {
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const V& u) const noexcept {
    return {-Math::expm1(-u), Math::exp(-u)};
  }
};

/// log 2 + log sigmoid(u), slope sigmoid(-u): the Jensen-Shannon divergence.
struct jensen_shannon_reward {
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const V& u) const noexcept {
    return {V(0.6931471805599453) - Math::softplus(-u), Math::sigmoid(-u)};
  }
};

/// (e^{(alpha - 1) u} - 1) / (alpha - 1), slope e^{(alpha - 1) u}; u itself where alpha is within 1e-6 of 1. Exponents
/// above `largest_exponent` are held there and have slope 0, as in TRL (80; in half precision it uses 11).
struct alpha_divergence_reward {
  double alpha = 0.5, largest_exponent = 80;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const V& u) const noexcept {
    if (std::abs(alpha - 1) < 1e-6) return {u, V(1)};
    const V x = V(alpha - 1) * u;
    const V held = Math::min(x, V(largest_exponent));
    return {Math::expm1(held) / V(alpha - 1), Math::select(x > V(largest_exponent), V(0), Math::exp(x))};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
