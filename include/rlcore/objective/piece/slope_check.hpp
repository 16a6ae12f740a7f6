// Gradient check of a piece: compares its slope with the derivative of its value. The derivative is computed with dual
// numbers, without a step size and exact to rounding.
//
//   const auto worst = rlcore::largest_slope_error(my_piece{});
//   if (worst.error() > 1e-12) std::puts(worst.text().c_str());
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "rlcore/core/elementary.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/preference/link.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A number v and its derivative d.
struct dual {
  double v = 0, d = 0;
  dual() = default;
  /// A constant: derivative 0.
  dual(double value) noexcept : v(value) {}
  /// A value with its derivative.
  dual(double value, double derivative) noexcept : v(value), d(derivative) {}

  friend dual operator+(dual a, dual b) noexcept { return {a.v + b.v, a.d + b.d}; }
  friend dual operator-(dual a, dual b) noexcept { return {a.v - b.v, a.d - b.d}; }
  friend dual operator-(dual a) noexcept { return {-a.v, -a.d}; }
  friend dual operator*(dual a, dual b) noexcept { return {a.v * b.v, a.d * b.v + a.v * b.d}; }
  friend dual operator/(dual a, dual b) noexcept { return {a.v / b.v, (a.d * b.v - a.v * b.d) / (b.v * b.v)}; }
  friend bool operator<(dual a, dual b) noexcept { return a.v < b.v; }
  friend bool operator>(dual a, dual b) noexcept { return a.v > b.v; }
  friend bool operator<=(dual a, dual b) noexcept { return a.v <= b.v; }
  friend bool operator>=(dual a, dual b) noexcept { return a.v >= b.v; }
  friend bool operator==(dual a, dual b) noexcept { return a.v == b.v; }
  friend bool operator!=(dual a, dual b) noexcept { return a.v != b.v; }
  friend dual exp(dual a) noexcept { return {elementary::exp(a.v), a.d * elementary::exp(a.v)}; }
  friend dual expm1(dual a) noexcept { return {elementary::expm1(a.v), a.d * elementary::exp(a.v)}; }
  friend dual log(dual a) noexcept { return {elementary::log(a.v), a.d / a.v}; }
  friend dual log1p(dual a) noexcept { return {elementary::log1p(a.v), a.d / (1 + a.v)}; }
  friend dual sqrt(dual a) noexcept { return {std::sqrt(a.v), a.d / (2 * std::sqrt(a.v))}; }
};

/// The slope and the derivative of the value at one token (a pair link: at two).
struct slope_difference {
  token<double> at{}, rejected{};
  double value = 0, carried = 0;     ///< the value of the piece, and the same computed with dual numbers
  double slope = 0, derivative = 0;  ///< the piece's slope, and the derivative of its value

  /// |slope - derivative| / max(1, |slope|); infinite if only one of them, or of the two values, is NaN. A NaN value
  /// has no derivative: 0.
  double error() const noexcept {
    if (std::isnan(value) || std::isnan(carried)) return std::isnan(value) && std::isnan(carried) ? 0 : HUGE_VAL;
    const double e = std::abs(slope - derivative) / std::fmax(1.0, std::abs(slope));
    return std::isnan(e) ? (slope == derivative ? 0 : HUGE_VAL) : e;
  }
  /// "slope 0.5, but the value's derivative is 1 at logp = -1, old_logp = -2, ..."
  std::string text() const {
    std::string s =
        "slope " + detail::shortest(slope) + ", but the value's derivative is " + detail::shortest(derivative) + " at";
    for (std::size_t f = 0; f < field_count; ++f)
      s += std::string(f ? ", " : " ") + std::string(field_names[f]) + " = " +
           detail::shortest(at.*field_member<double>[f]);
    return s;
  }
};

namespace detail {
inline token<dual> as_dual(const token<double>& t, field moving) noexcept {
  token<dual> x;
  for (std::size_t f = 0; f < field_count; ++f)
    x.*field_member<dual>[f] = {t.*field_member<double>[f], contains(moving, field_at(f)) ? 1.0 : 0.0};
  return x;
}
}  // namespace detail

/// The slope of a token piece (or a row link) at one token. `also`: fields that move together with what the slope is
/// taken by, e.g. gathered where a sequence's statistic stands for the token's own log-ratio. Pieces that say
/// `stops_gradient` differ on purpose.
template <class P>
slope_difference slope_difference_at(const P& piece, const token<double>& t, field also = field::none) noexcept {
  const auto plain = piece.template operator()<exact_math, double>(t);
  const auto carried = piece.template operator()<exact_math, dual>(detail::as_dual(t, wrt_of<P>() | also));
  return {t, {}, plain.value, carried.value.v, plain.slope, carried.value.d};
}

/// The slope of a pair link by the score of the chosen row, or by that of the rejected one.
template <pair_link L>
slope_difference slope_difference_at(const L& link, const token<double>& chosen, const token<double>& rejected,
                                     bool by_chosen) noexcept {
  const auto plain = link.template operator()<exact_math, double>(chosen, rejected);
  const auto carried =
      link.template operator()<exact_math, dual>(detail::as_dual(chosen, by_chosen ? field::logp : field::none),
                                                 detail::as_dual(rejected, by_chosen ? field::none : field::logp));
  return {chosen,         rejected, plain.value, carried.value.v, by_chosen ? plain.slope_chosen : plain.slope_rejected,
          carried.value.d};
}

/// A token with every field drawn at random: log-probs below 0, weight and entropy above, the rest normal, selected 0
/// or 1. The same number gives the same token.
inline token<double> random_token(std::uint32_t number) noexcept {
  const auto normal = [number](std::uint32_t f) { return random_key{7}.normal(number, f); };
  token<double> t;
  t.logp = -std::abs(normal(0)), t.old_logp = -std::abs(normal(1)), t.ref_logp = -std::abs(normal(2));
  t.rollout_logp = -std::abs(normal(3)), t.advantage = normal(4), t.weight = std::abs(normal(5));
  t.entropy = std::abs(normal(6)), t.value = normal(7), t.old_value = normal(8), t.target = normal(9);
  t.selected = normal(10) > 0 ? 1 : 0, t.gathered = normal(11);
  return t;
}

/// The worst of `tokens` random ones, of a pair link the worst of as many pairs. Values are in the order of 1; where a
/// piece has other ranges, go through your own tokens with slope_difference_at.
template <class P>
slope_difference largest_slope_error(const P& piece, field also = field::none, std::uint32_t tokens = 1000) noexcept {
  slope_difference worst;
  const auto keep = [&](const slope_difference& d) {
    if (!(d.error() < worst.error())) worst = d;
  };
  for (std::uint32_t i = 0; i < tokens; ++i) {
    if constexpr (pair_link<P>) {
      const token<double> chosen = random_token(2 * i), rejected = random_token(2 * i + 1);
      for (const bool by_chosen : {true, false}) keep(slope_difference_at(piece, chosen, rejected, by_chosen));
    } else {
      keep(slope_difference_at(piece, random_token(i), also));
    }
  }
  return worst;
}

RLCORE_ALGORITHM_END
RLCORE_END
