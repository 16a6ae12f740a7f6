// The values of formulas: numbers as computer algebra holds them, and points at which variables have values.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/random.hpp"

RLCORE_BEGIN
namespace verify::detail {

/// A value and what computer algebra would hold: a fraction, a number with a decimal point that it rounds, or a term
/// with roots, constants or variables. It adds up the numbers of a sum first: `above` / `below` is the number itself,
/// or the one that stands in a term as a summand. If that has a decimal point or too many digits, it is `summand`.
struct quantity {
  enum class kind { fraction, decimal, term };
  std::complex<double> value;
  kind type = kind::term;
  std::int64_t above = 0, below = 1;
  double summand = 0;
  /// A term with a decimal as its exponent, x^2.0, is not x^2; as a divisor it is.
  bool decimal_power = false;

  static quantity fraction(std::int64_t above, std::int64_t below = 1);
  /// Also for fractions too large for that.
  static quantity of(kind type, std::complex<double> value);
  bool is_fraction() const { return type == kind::fraction; }
  bool is_integer() const { return is_fraction() && below == 1; }
  bool is_number() const { return type != kind::term; }
  /// The number in the sum.
  quantity number() const { return below != 0 ? fraction(above, below) : of(kind::decimal, summand); }
  /// The same value with the number of `other` in the sum.
  quantity with_number(const quantity& other) const {
    quantity q = *this;
    q.above = other.above, q.below = other.below, q.summand = other.summand;
    return q;
  }
};

/// The result of an operation on two values.
quantity joined(const quantity& a, const quantity& b, std::complex<double> value);
quantity plus(const quantity& a, const quantity& b);
quantity times(const quantity& a, const quantity& b);
quantity over(const quantity& a, const quantity& b);

/// A point at which formulas get their values. Variables are numbered as they appear; the first two pass through all
/// pairs of quadrants, four times with values of different sizes, and through pairs of signs on the real axis: no
/// branch of a root is left out.
struct sample_point {
  static constexpr std::uint32_t count = 68;
  std::uint32_t index = 0;
  std::vector<std::string> variables = {};

  std::complex<double> value_of(std::string_view variable);
  /// Powers of variables may be too large for a double here.
  bool has_large_values() const { return index / 16 == 1; }
};

}  // namespace verify::detail
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_VERIFY)
RLCORE_BEGIN
namespace verify::detail {

RLCORE_INLINE quantity quantity::of(kind type, std::complex<double> value) {
  // A value beside an axis is on it, on the upper side of a branch: rounding must not choose the branch.
  const double size = std::abs(value), near = std::isfinite(size) ? 1e-14 * size : -1;
  const double x = std::abs(value.real()) <= near ? 0 : value.real(),
               y = std::abs(value.imag()) <= near ? 0 : value.imag();
  return {{x + 0.0, y + 0.0}, type, 0, type == kind::term ? 1 : 0, x, false};
}

RLCORE_INLINE quantity quantity::fraction(std::int64_t above, std::int64_t below) {
  constexpr std::int64_t exact = std::int64_t{1} << 53;
  const std::int64_t divisor = std::gcd(above, below) * (below < 0 ? -1 : 1);
  above /= divisor, below /= divisor;
  quantity q = of(kind::fraction, static_cast<double>(above) / static_cast<double>(below));
  if (above <= exact && above >= -exact && below <= exact) q.above = above, q.below = below;
  return q;
}

/// Whether products of the parts of two fractions fit.
inline bool can_multiply(const quantity& a, const quantity& b) {
  constexpr std::int64_t half = std::int64_t{1} << 31;
  const auto is_short = [](std::int64_t n) { return n < half && n > -half; };
  return a.is_fraction() && b.is_fraction() && a.below != 0 && b.below != 0 && is_short(a.above) && is_short(a.below) &&
         is_short(b.above) && is_short(b.below);
}

RLCORE_INLINE quantity joined(const quantity& a, const quantity& b, std::complex<double> value) {
  quantity q = quantity::of(std::max(a.type, b.type), value);
  q.decimal_power = a.decimal_power || b.decimal_power;
  return q;
}

RLCORE_INLINE quantity plus(const quantity& a, const quantity& b) {
  if (can_multiply(a, b)) return quantity::fraction(a.above * b.below + b.above * a.below, a.below * b.below);
  const quantity q = joined(a, b, a.value + b.value);
  return q.is_number() ? q : q.with_number(plus(a.number(), b.number()));
}

RLCORE_INLINE quantity times(const quantity& a, const quantity& b) {
  if (can_multiply(a, b)) return quantity::fraction(a.above * b.above, a.below * b.below);
  const quantity q = joined(a, b, a.value * b.value);
  return q.is_number() || !(a.is_number() || b.is_number()) ? q : q.with_number(times(a.number(), b.number()));
}

RLCORE_INLINE quantity over(const quantity& a, const quantity& b) {
  if (can_multiply(a, b) && b.above != 0) return quantity::fraction(a.above * b.below, a.below * b.above);
  if (a.is_fraction() && b.type == quantity::kind::decimal)  // sympy rounds the reciprocal too
    return quantity::of(b.type, a.value * (1.0 / b.value));
  quantity q = joined(a, b, a.value / b.value);
  q.decimal_power = a.decimal_power;
  return q.is_number() || !b.is_number() ? q : q.with_number(over(a.number(), b.number()));
}

RLCORE_INLINE std::complex<double> sample_point::value_of(std::string_view variable) {
  constexpr random_key key{0x6d617468};
  const auto known = std::find(variables.begin(), variables.end(), variable);
  const auto number = static_cast<std::uint32_t>(known - variables.begin());
  if (known == variables.end()) variables.emplace_back(variable);
  const std::uint32_t round = index / 16, turn = number == 0 ? index : number == 1 ? index / 4 : index * 7 / 3 + number;
  const double size = round == 1 ? 100 : (round == 2 && number == 0) || (round == 3 && number == 1) ? 0.01 : 1;
  const double x = size * (0.3 + 2.5 * key.uniform(number, index, 0));
  const double y = size * (0.2 + 2.5 * key.uniform(number, index, 1));
  const bool left = turn % 2 != 0, down = turn / 2 % 2 != 0;
  if (round == 4) return {(number == 0 ? left : turn + number != 0) ? -x : x, 0};
  return {left ? -x : x, down ? -y : y};
}

}  // namespace verify::detail
RLCORE_END
#endif
