// Math functions of token pieces for scalars (exact_math), from core/elementary.hpp: float, double, and any type that
// overloads these functions (dual numbers in tests).
#pragma once

#include <cmath>
#include <limits>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/elementary.hpp"

RLCORE_BEGIN

/// The functions a piece may call, as static members of its `Math` parameter. `fast_math` has the same names for packs.
struct exact_math {
  /// a where the condition holds, else b.
  template <class M, class V>
  RLCORE_FN static V select(const M& condition, const V& a, const V& b) noexcept {
    return condition ? a : b;
  }
  /// Whether all conditions hold; any of them.
  template <class... M>
  RLCORE_FN static bool all(M... conditions) noexcept {
    return (conditions && ...);
  }
  /// Whether any of the conditions holds.
  template <class... M>
  RLCORE_FN static bool any(M... conditions) noexcept {
    return (conditions || ...);
  }
  /// e^x
  template <class V>
  RLCORE_FN static V exp(const V& x) noexcept {
    using elementary::exp;
    return exp(x);
  }
  /// log x
  template <class V>
  RLCORE_FN static V log(const V& x) noexcept {
    using elementary::log;
    return log(x);
  }
  /// e^x - 1, without cancellation near 0.
  template <class V>
  RLCORE_FN static V expm1(const V& x) noexcept {
    using elementary::expm1;
    return expm1(x);
  }
  /// log(1 + x), without cancellation near 0.
  template <class V>
  RLCORE_FN static V log1p(const V& x) noexcept {
    using elementary::log1p;
    return log1p(x);
  }
  /// The square root.
  template <class V>
  RLCORE_FN static V sqrt(const V& x) noexcept {
    using std::sqrt;
    return sqrt(x);
  }
  /// e^x - 1 - x >= 0 without cancellation: near 0 it is the series x^2/2 + x^3/6 + ...
  template <class V>
  RLCORE_FN static V excess(const V& x) noexcept {
    if (x > V(1e30f)) return expm1(x);  // inf - inf is NaN
    if (x > V(0.5f) || x < V(-0.5f) || x != x) return expm1(x) - x;
    V q = V(0);
    for (int k = 17; k >= 2; --k) q = (q * x + V(1)) / V(static_cast<float>(k));  // Horner of sum x^(k-2) 1/(2 3 ... k)
    return x * x * q;
  }
  /// 1 / (1 + e^-x)
  template <class V>
  RLCORE_FN static V sigmoid(const V& x) noexcept {
    const V e = exp(-abs(x));
    return select(x >= V(0), V(1), e) / (V(1) + e);
  }
  /// log(1 + e^x)
  template <class V>
  RLCORE_FN static V softplus(const V& x) noexcept {
    return max(x, V(0)) + log1p(exp(-abs(x)));
  }
  /// b where it is the smaller one, else a.
  template <class V>
  RLCORE_FN static V min(const V& a, const V& b) noexcept {
    return select(b < a, b, a);
  }
  /// b where it is the larger one, else a.
  template <class V>
  RLCORE_FN static V max(const V& a, const V& b) noexcept {
    return select(b > a, b, a);
  }
  /// x limited to [low, high]; NaN stays NaN.
  template <class V>
  RLCORE_FN static V clamp(const V& x, const V& low, const V& high) noexcept {
    return select(x < low, low, select(x > high, high, x));
  }
  /// |x|; NaN stays NaN.
  template <class V>
  RLCORE_FN static V abs(const V& x) noexcept {
    return select(x < V(0), -x, x);
  }
  /// -1, 0 or 1; NaN stays NaN.
  template <class V>
  RLCORE_FN static V sign(const V& x) noexcept {
    return select(x > V(0), V(1), select(x < V(0), V(-1), x));
  }
};

RLCORE_END
