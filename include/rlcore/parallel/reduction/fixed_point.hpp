// Order-independent (associative) summation of floats in fixed point.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

/// Numbers in units of 2^-44 (6e-14); smaller parts of float gradients are lost. A number that is not finite, or too
/// large for a sum of `terms` of them, is `invalid`, and so is every sum with it.
struct fixed_point {
  using value = std::int64_t;
  static constexpr value invalid = std::numeric_limits<value>::min();

  /// The largest magnitude, in units, such that `terms` of them fit into 2^62.
  static double limit(std::size_t terms) noexcept {
    return std::ldexp(1.0, 62) / static_cast<double>(terms < 1 ? 1 : terms);
  }
  /// x * 2^44 rounded to the nearest integer, ties to even; invalid if |x * 2^44| is above `limit` or NaN.
  static value of(float x, double limit) noexcept {
    const double units = static_cast<double>(x) * 0x1p44;
    return std::fabs(units) <= limit ? static_cast<value>(std::nearbyint(units)) : invalid;
  }
  /// x * 2^-44; NaN if x is invalid.
  static float to_float(value x) noexcept {
    return x == invalid ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(x) * 0x1p-44f;
  }
  /// a + b; invalid if either is.
  static value sum(value a, value b) noexcept { return a == invalid || b == invalid ? invalid : a + b; }

  /// total[i] += x[i] for i < n.
  static void add(value* total, const value* x, std::size_t n) noexcept {
    for (std::size_t i = 0; i < n; ++i) total[i] = sum(total[i], x[i]);
  }
  /// The same for floats, each rounded as of() does.
  static void add(value* total, const float* x, std::size_t n, double limit) noexcept {
    for (std::size_t i = 0; i < n; ++i) total[i] = sum(total[i], of(x[i], limit));
  }
};

}  // namespace parallel
RLCORE_END
