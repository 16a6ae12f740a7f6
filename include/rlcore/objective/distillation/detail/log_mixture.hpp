// log(a A + b B) from log A and log B.
#pragma once

#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace detail {

/// Single precision: float, or packs of it.
template <class V>
inline constexpr bool is_single = std::is_same_v<V, float>;
template <class V>
requires requires { typename V::value_type; }
inline constexpr bool is_single<V> = std::is_same_v<typename V::value_type, float>;

/// log(1 + x) for 0 <= x <= 1 without a library call: 2 artanh(s) = 2 s (1 + s^2 / 3 + s^4 / 5 + ...) with s = x / (2 +
/// x)
/// <= 1/3. The first term left out is below half a unit in the last place.
template <class V>
RLCORE_FN V log1p_below_one(const V& x) noexcept {
  constexpr int terms = is_single<V> ? 8 : 17;
  const V s = x / (x + V(2)), w = s * s;
  V sum = V(1) / V(2 * terms - 1);
  for (int k = terms - 2; k >= 0; --k) sum = sum * w + V(1) / V(2 * k + 1);
  return (s + s) * sum;
}

/// log(e^x + e^y) without leaving log space: mixtures of probabilities that underflow stay finite.
template <class Math, class V>
RLCORE_FN V log_add(const V& x, const V& y) noexcept {
  return Math::max(x, y) + log1p_below_one(Math::exp(-Math::abs(x - y)));
}

}  // namespace detail
RLCORE_ALGORITHM_END
RLCORE_END
