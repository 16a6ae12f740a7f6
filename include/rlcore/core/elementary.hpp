// exp, exp2, expm1, log, log2, log1p, pow, sin, cos and tanh with the same bits on every machine.
//
// A C library picks a variant by the processor it finds, and a compiler may fuse, reorder or vectorise floating-point
// operations. So everything here is integer arithmetic on the bits of the argument: fixed-point numbers of 64 and 128
// bits, short Taylor series after a reduction, one rounding to nearest (ties to even) at the end. No flag, compiler,
// processor, rounding mode or flush-to-zero mode changes a bit. The result is off by less than 0.54 units in the last
// place (the numbers are in tests/core/elementary_test.cpp). Arguments of any size. No function touches errno.
//
// "Qn" in a comment: fixed point, an integer divided by 2^n.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/elementary_tables.hpp"

RLCORE_BEGIN
namespace elementary {
RLCORE_ALGORITHM_BEGIN
namespace detail {

using namespace constants;

/// (-1)^negative m 2^(e - 127) with 2^127 <= m, or m = 0
struct number {
  wide m = 0;
  int e = 0;
  bool negative = false;
  constexpr word top() const noexcept { return static_cast<word>(m >> 64); }
};

constexpr word one = word{1} << 63, sign_bit = one, infinity_bits = word{0x7ff} << 52;

constexpr word bits_of(double x) noexcept { return std::bit_cast<word>(x); }
constexpr word size_bits(double x) noexcept { return bits_of(x) & ~sign_bit; }
constexpr double infinity(bool negative = false) noexcept {
  return std::bit_cast<double>(infinity_bits | (negative ? sign_bit : 0));
}
constexpr double not_a_number() noexcept { return std::bit_cast<double>(word{0x7ff8} << 48); }
constexpr double zero(bool negative) noexcept { return std::bit_cast<double>(negative ? sign_bit : word{0}); }

constexpr word high(word a, word b) noexcept { return static_cast<word>((wide{a} * b) >> 64); }
/// a b / 2^128, at most 3 too small
RLCORE_FN constexpr wide high_wide(wide a, wide b) noexcept {
  const wide a1 = a >> 64, a0 = static_cast<word>(a), b1 = b >> 64, b0 = static_cast<word>(b);
  return a1 * b1 + ((a1 * b0) >> 64) + ((a0 * b1) >> 64);
}
/// x or -x without a branch: signs are as good as random, and a misprediction costs 20 cycles
template <class T>
constexpr T negated_if(bool negative, T x) noexcept {
  const T mask = T{} - static_cast<T>(negative ? 1 : 0);
  return (x ^ mask) - mask;
}
RLCORE_FN constexpr int leading_zeros(wide x) noexcept {
  const auto top = static_cast<word>(x >> 64);
  return top != 0 ? std::countl_zero(top) : 64 + std::countl_zero(static_cast<word>(x));
}
constexpr word shifted(word x, int right) noexcept { return right < 64 ? x >> right : 0; }
constexpr wide shifted(wide x, int right) noexcept { return right < 128 ? x >> right : 0; }

/// m 2^(e - 127)
RLCORE_FN constexpr number normalised(wide m, int e, bool negative) noexcept {
  if (m == 0) return {0, 0, negative};
  const int zeros = leading_zeros(m);
  return {m << zeros, e - zeros, negative};
}

/// A finite x.
RLCORE_FN constexpr number number_of(double x) noexcept {
  const word size = size_bits(x), fraction = size & ((word{1} << 52) - 1);
  const bool negative = bits_of(x) != size;
  const auto exponent = static_cast<int>(size >> 52);
  if (exponent == 0) return normalised(fraction, 127 - 1074, negative);
  return {wide{fraction | (word{1} << 52)} << 75, exponent - 1023, negative};
}

/// The nearest double, ties to even; infinity and subnormal numbers as IEEE 754 has them.
RLCORE_FN constexpr double rounded(const number& x) noexcept {
  if (x.m == 0) return zero(x.negative);
  if (x.e > 1023) return infinity(x.negative);
  const word m = x.top() | (static_cast<word>(x.m) != 0 ? 1 : 0);
  const int drop = x.e < -1022 ? 11 - 1022 - x.e : 11;
  if (drop > 64) return zero(x.negative);
  word kept = drop < 64 ? m >> drop : 0;
  const word rest = m << (64 - drop);
  if (rest > one || (rest == one && (kept & 1) != 0)) ++kept;
  if (x.e >= -1022) kept += static_cast<word>(x.e + 1022) << 52;  // `kept` itself adds 1 to the exponent
  return std::bit_cast<double>(kept | (x.negative ? sign_bit : 0));
}

/// 2^bits / k!
template <int bits>
inline constexpr std::array<word, 21> over_factorial = [] {
  std::array<word, 21> table{};
  wide f = wide{1} << bits;
  for (std::size_t k = 0; k < table.size(); ++k) {
    f /= k > 1 ? k : 1;
    table[k] = static_cast<word>(f);  // 2^64 / 0! and 2^64 / 1! do not fit and are not used
  }
  return table;
}();

/// 2^64 / k
inline constexpr std::array<word, 21> over = [] {
  std::array<word, 21> table{};
  for (std::size_t k = 2; k < table.size(); ++k) table[k] = static_cast<word>((wide{1} << 64) / k);
  return table;
}();

/// c[first] + c[first + 2] x + c[first + 4] x^2 + ... + c[last] x^n for x in Q64; the same with alternating signs
template <int first, int last>
constexpr word series(const std::array<word, 21>& c, word x) noexcept {
  if constexpr (first == last)
    return c[first];
  else
    return c[first] + high(x, series<first + 2, last>(c, x));
}
template <int first, int last>
constexpr word alternating(const std::array<word, 21>& c, word x) noexcept {
  if constexpr (first == last)
    return c[first];
  else
    return c[first] - high(x, alternating<first + 2, last>(c, x));
}

/// m 2^n, 1 <= m < 2 in Q63
struct power {
  word m = one;
  int n = 0;
};

/// 2^y for y in Q64: 2^n 2^(i/32) e^r with 0 <= r < log(2) / 32; relative error below 2^-61.
RLCORE_FN constexpr power two_to(wide y) noexcept {
  const auto fraction = static_cast<word>(y);
  const word r = high(fraction << 5, ln_2_word) >> 5, rr = high(r, r);
  const auto& c = over_factorial<63>;
  const word mean_slope = series<1, 9>(c, rr) + high(r, series<2, 8>(c, rr));  // (e^r - 1) / r in Q63
  const word base = powers_of_two[static_cast<std::size_t>(fraction >> 59)];
  return {base + high(base, high(r, mean_slope) << 1), static_cast<int>(static_cast<std::int64_t>(y >> 64))};
}
/// e^t and 2^t; beyond 2^11 any number that overflows.
template <bool base_two = false>
RLCORE_FN constexpr power exp_of(const number& t) noexcept {
  if (t.m == 0 || t.e < -64) return {};
  if (t.e > 10) return {one, t.negative ? -5000 : 5000};
  const wide size = base_two ? t.m >> (63 - t.e) : high_wide(t.m, log2_e) >> (62 - t.e);
  return two_to(negated_if(t.negative, size));
}
constexpr double rounded(const power& p, bool negative = false) noexcept {
  return rounded(number{wide{p.m} << 64, p.n, negative});
}

RLCORE_FN constexpr number expm1_of(const number& x) noexcept {
  if (x.m == 0) return x;
  if (x.e <= -5) {  // x (1 + x/2 + x^2/6 + ...)
    const word r = shifted(x.top(), -x.e - 1), rr = high(r, r);
    const auto& c = over_factorial<63>;
    const word even = series<1, 11>(c, rr), odd = high(r, series<2, 10>(c, rr));
    return normalised(wide{x.top()} * (even + negated_if(x.negative, odd)), x.e + 1, x.negative);
  }
  const power p = exp_of(x);
  if (p.n >= 0) return normalised(wide{p.m - shifted(one, p.n)} << 64, p.n, false);
  return normalised(wide{one - shifted(p.m, -p.n)} << 64, 0, true);
}

/// 1/2 - r/3 + r^2/4 - ... in Q64 for |r| in Q64
RLCORE_FN constexpr word log_slope(word r, bool negative) noexcept {
  const word rr = high(r, r);
  return series<2, 10>(over, rr) + negated_if(!negative, high(r, series<3, 11>(over, rr)));
}

/// log(1 + r) = r (1 - r (1/2 - r/3 + ...)) for |r| < 2^-6.7; relative error below 2^-69.
RLCORE_FN constexpr number log_near_one(word m, int e, bool negative) noexcept {
  const wide change = shifted(wide{m} * log_slope(shifted(m, -e - 1), negative), -e), unit = wide{1} << 127;
  return normalised(high_wide(wide{m} << 64, unit + negated_if(!negative, change)), e + 1, negative);
}

/// log(m 2^k), 1 <= m < 2 in Q63: with c near 1 / m it is k log 2 - log c + log(1 + r), and r = m c - 1 is exact.
RLCORE_FN constexpr number log_of(word m, int k) noexcept {
  const auto j = static_cast<std::size_t>(((m & ~one) + (word{1} << 56)) >> 57);
  const int upper = j >= 27 ? 1 : 0;  // m > 1.41 is taken as m / 2, so that no digit cancels next to 1
  k += upper;
  const auto r = static_cast<signed_wide>((wide{m} * reciprocals[j]) << (1 - upper)) - (signed_wide{1} << 75);  // Q75
  const bool negative = r < 0;
  const wide size = negated_if(negative, static_cast<wide>(r));
  if (k == 0 && (j == 0 || j == 64)) {
    const int zeros = leading_zeros(size | 1);
    return size == 0 ? number{} : log_near_one(static_cast<word>((size << zeros) >> 64), 52 - zeros, negative);
  }
  const auto short_r = static_cast<word>(size >> 5);                                  // Q70
  const word bend = high(high(short_r, short_r), log_slope(short_r >> 6, negative));  // Q76
  const auto sum = k * static_cast<signed_wide>(ln_2) +
                   static_cast<signed_wide>(wide_of(log_reciprocals[j][0], log_reciprocals[j][1])) + (r << 37) -
                   (static_cast<signed_wide>(bend) << 36);  // Q112
  return normalised(negated_if(sum < 0, static_cast<wide>(sum)), 15, sum < 0);
}

/// An angle in [-pi/4, pi/4] and the number of right angles to add, modulo 4.
struct turned {
  number r;
  unsigned quadrant = 0;
};

/// x = m 2^e with m of 53 bits; of x 2 / pi only the bits below 4 matter, and 190 of them behind the point are kept:
/// the nearest that a double comes to a multiple of pi / 2 is about 2^-61 (the reduction of Payne and Hanek, 1983).
constexpr turned reduced(const number& x) noexcept {
  if (x.e < -1) return {x, 0};
  const auto m = static_cast<word>(x.m >> 75);
  const auto at = static_cast<std::size_t>(x.e - 52 + 62), i = at / 64, s = at % 64;
  const auto bits = [&](std::size_t k) {
    return s == 0 ? two_over_pi[i + k] : (two_over_pi[i + k] << s) | (two_over_pi[i + k + 1] >> (64 - s));
  };
  const wide low = wide{m} * bits(2), middle = wide{m} * bits(1) + (low >> 64);
  const word top = m * bits(0) + static_cast<word>(middle >> 64);
  auto quadrant = static_cast<unsigned>(top >> 62);
  wide f = (wide_of(top, static_cast<word>(middle)) << 2) | (static_cast<word>(low) >> 62);  // Q128
  word g = static_cast<word>(low) << 2;                                                      // the next 64 bits
  const bool beyond = (f >> 127) != 0;
  if (beyond) f = ~f + (g == 0 ? 1 : 0), g = ~g + 1, ++quadrant;
  const int zeros = leading_zeros(f);
  if (zeros >= 64) f = wide{g} << 64;  // no double is so close to a multiple
  if (zeros > 0 && zeros < 64) f = (f << zeros) | (g >> (64 - zeros));
  number r = normalised(high_wide(f, half_pi), -zeros, beyond != x.negative);
  return {r, x.negative ? 4 - quadrant % 4 : quadrant};
}

/// r (1 - r^2 (1/3! - r^2/5! + ...)) and 1 - r^2 (1/2! - r^2/4! + ...), the sine and the cosine of the reduced angle
constexpr number sine_of(const number& r) noexcept {
  const word a = shifted(r.top(), -r.e - 1), z = high(a, a);
  const word change = high(z, alternating<3, 19>(over_factorial<64>, z));
  return normalised(high_wide(r.m, (wide{1} << 127) - (wide{change} << 63)), r.e + 1, r.negative);
}
constexpr number cosine_of(const number& r) noexcept {
  const word a = shifted(r.top(), -r.e - 1), z = high(a, a);
  const word change = high(z, alternating<2, 20>(over_factorial<64>, z));
  return normalised((wide{1} << 127) - (wide{change} << 63), 0, false);
}
/// The sine of x + `quarter_turns` right angles.
constexpr double turned_sine(double x, unsigned quarter_turns) noexcept {
  const turned t = reduced(number_of(x));
  const unsigned q = (t.quadrant + quarter_turns) % 4;
  number y = q % 2 == 0 ? sine_of(t.r) : cosine_of(t.r);
  if (q >= 2) y.negative = !y.negative;
  return rounded(y);
}

enum class parity { no_integer, odd, even };
constexpr parity parity_of(double y) noexcept {
  const word size = size_bits(y);
  const auto e = static_cast<int>(size >> 52) - 1023;
  if (size == 0 || e > 52) return parity::even;
  if (e < 0) return parity::no_integer;
  const word m = (size & ((word{1} << 52) - 1)) | (word{1} << 52);
  const int below = 52 - e;
  if ((m & ((word{1} << below) - 1)) != 0) return parity::no_integer;
  return ((m >> below) & 1) != 0 ? parity::odd : parity::even;
}

constexpr bool is_nan(double x) noexcept { return size_bits(x) > infinity_bits; }
constexpr bool is_infinite(double x) noexcept { return size_bits(x) == infinity_bits; }
constexpr bool is_negative(double x) noexcept { return (bits_of(x) & sign_bit) != 0; }

}  // namespace detail

/// e^x
constexpr double exp(double x) noexcept {
  using namespace detail;
  if (is_nan(x)) return x;
  if (is_infinite(x)) return is_negative(x) ? 0.0 : x;
  return rounded(exp_of(number_of(x)));
}

/// 2^x, exact for whole x
constexpr double exp2(double x) noexcept {
  using namespace detail;
  if (is_nan(x)) return x;
  if (is_infinite(x)) return is_negative(x) ? 0.0 : x;
  return rounded(exp_of<true>(number_of(x)));
}

/// e^x - 1
constexpr double expm1(double x) noexcept {
  using namespace detail;
  if (is_nan(x)) return x;
  if (is_infinite(x)) return is_negative(x) ? -1.0 : x;
  return rounded(expm1_of(number_of(x)));
}

/// The natural logarithm: -infinity of 0, NaN below.
constexpr double log(double x) noexcept {
  using namespace detail;
  if (is_nan(x)) return x;
  if (size_bits(x) == 0) return infinity(true);
  if (is_negative(x)) return not_a_number();
  if (is_infinite(x)) return x;
  const number n = number_of(x);
  return rounded(log_of(n.top(), n.e));
}

/// The logarithm to base 2, exact for powers of 2.
constexpr double log2(double x) noexcept {
  using namespace detail;
  if (!(size_bits(x) - 1 < infinity_bits - 1) || is_negative(x)) return log(x);
  const number n = number_of(x), y = log_of(n.top(), n.e);
  return rounded(normalised(high_wide(y.m, log2_e), y.e + 1, y.negative));
}

/// log(1 + x): -infinity of -1, NaN below.
constexpr double log1p(double x) noexcept {
  using namespace detail;
  if (is_nan(x) || size_bits(x) == 0) return x;
  if (is_infinite(x)) return is_negative(x) ? not_a_number() : x;
  const number n = number_of(x);
  if (n.e < -7) return rounded(log_near_one(n.top(), n.e, n.negative));
  if (n.negative && n.e >= 0) return n.e == 0 && n.m == wide{1} << 127 ? infinity(true) : not_a_number();
  if (n.e > 63) return rounded(log_of(n.top(), n.e));
  const wide size = n.m >> (64 - n.e);  // Q63, exact
  const number sum = normalised(n.negative ? one - size : one + size, 64, false);
  return rounded(log_of(sum.top(), sum.e));
}

/// x^y, with the special cases of C (annex F): 1^y = x^0 = 1, NaN for a negative x and a y that is no integer.
constexpr double pow(double x, double y) noexcept {
  using namespace detail;
  const word size = size_bits(x), unit = bits_of(1.0);
  if (size_bits(y) == 0 || bits_of(x) == unit) return 1.0;
  if (is_nan(x) || is_nan(y)) return is_nan(x) ? x : y;
  if (is_infinite(y)) {
    if (size == unit) return 1.0;
    return (size > unit) == is_negative(y) ? 0.0 : infinity();
  }
  const parity kind = parity_of(y);
  const bool negative = is_negative(x) && kind == parity::odd;
  if (size == 0 || is_infinite(x)) return (size == 0) == is_negative(y) ? infinity(negative) : zero(negative);
  if (is_negative(x) && kind == parity::no_integer) return not_a_number();
  const number n = number_of(x), a = log_of(n.top(), n.e), b = number_of(y);
  return rounded(exp_of(normalised(high_wide(a.m, b.m), a.e + b.e + 1, a.negative != b.negative)), negative);
}

/// The sine of an angle in radians; NaN of an infinite one.
constexpr double sin(double x) noexcept {
  using namespace detail;
  if (is_nan(x) || size_bits(x) == 0) return x;
  return is_infinite(x) ? not_a_number() : turned_sine(x, 0);
}

/// The cosine of an angle in radians; NaN of an infinite one.
constexpr double cos(double x) noexcept {
  using namespace detail;
  if (is_nan(x)) return x;
  if (size_bits(x) == 0) return 1.0;
  return is_infinite(x) ? not_a_number() : turned_sine(x, 1);
}

/// d / (2 - d) with d = 1 - e^(-2 |x|)
constexpr double tanh(double x) noexcept {
  using namespace detail;
  if (is_nan(x) || size_bits(x) == 0) return x;
  number n = number_of(x);
  if (is_infinite(x) || n.e > 5) return is_negative(x) ? -1.0 : 1.0;
  if (n.e < -32) return x;  // less x^3 / 3, which is below 2^-65 x
  const number d = expm1_of({n.m, n.e + 1, true});
  const wide quotient = (wide{d.top()} << 62) / (one - shifted(d.top(), 1 - d.e));  // 2 - d in Q62
  return rounded(normalised(quotient << 63, d.e + 1, n.negative));
}

/// In double, then rounded to float.
constexpr float exp(float x) noexcept { return static_cast<float>(exp(static_cast<double>(x))); }
/// In double, then rounded to float.
constexpr float exp2(float x) noexcept { return static_cast<float>(exp2(static_cast<double>(x))); }
/// In double, then rounded to float.
constexpr float expm1(float x) noexcept { return static_cast<float>(expm1(static_cast<double>(x))); }
/// In double, then rounded to float.
constexpr float log(float x) noexcept { return static_cast<float>(log(static_cast<double>(x))); }
/// In double, then rounded to float.
constexpr float log2(float x) noexcept { return static_cast<float>(log2(static_cast<double>(x))); }
/// In double, then rounded to float.
constexpr float log1p(float x) noexcept { return static_cast<float>(log1p(static_cast<double>(x))); }
/// In double, then rounded to float.
constexpr float sin(float x) noexcept { return static_cast<float>(sin(static_cast<double>(x))); }
/// In double, then rounded to float.
constexpr float cos(float x) noexcept { return static_cast<float>(cos(static_cast<double>(x))); }
/// In double, then rounded to float.
constexpr float tanh(float x) noexcept { return static_cast<float>(tanh(static_cast<double>(x))); }
/// In double, then rounded to float.
constexpr float pow(float x, float y) noexcept {
  return static_cast<float>(pow(static_cast<double>(x), static_cast<double>(y)));
}

RLCORE_ALGORITHM_END
}  // namespace elementary
RLCORE_END
