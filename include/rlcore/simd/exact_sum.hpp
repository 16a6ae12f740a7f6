// Exact, order-independent summation of doubles: makes reports bit-identical for every split.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"

RLCORE_BEGIN

class exact_sum;

RLCORE_ALGORITHM_BEGIN

/// The arithmetic of exact_sum. Out of line: it runs once per row, and inlining it would dominate the compile time of
/// reports.
struct exact_arithmetic {
  /// Adds x.
  static void add(exact_sum& sum, double x) noexcept;
  /// Adds another sum.
  static void join(exact_sum& sum, const exact_sum& other) noexcept;
  /// The sum, rounded to nearest even; infinite or NaN if an addend is.
  static double value(const exact_sum& sum) noexcept;

 private:
  static void carry(exact_sum& sum) noexcept;
};

RLCORE_ALGORITHM_END

/// Sum of any number of doubles, rounded once at the end. Adding and merging are associative and commutative to the
/// bit, so the result does not depend on micro-batches, threads or ranks. Infinities and NaN behave as in ordinary
/// addition. About 3 ns per addition; 560 bytes.
///
/// The value is sum_i digit[i] 2^(32 i - 1074); digits are signed and may exceed 32 bits until carries are propagated.
class exact_sum {
 public:
  static constexpr std::size_t digits = 68;  // 66 cover every finite double, the rest takes carries

  /// Adds x.
  RLCORE_FN void add(double x) noexcept { exact_arithmetic::add(*this, x); }
  /// Adds another sum.
  RLCORE_FN exact_sum& operator+=(const exact_sum& other) noexcept {
    exact_arithmetic::join(*this, other);
    return *this;
  }
  /// The sum, rounded to nearest even.
  RLCORE_FN double value() const noexcept { return exact_arithmetic::value(*this); }

 private:
  friend struct ::rlcore::exact_arithmetic;
  static constexpr std::uint32_t limit = std::uint32_t{1} << 30;  // additions that certainly fit in 63 bits

  std::array<std::int64_t, digits> digit_{};
  double special_ = 0;  // sum of the infinities and NaNs seen
  std::uint32_t pending_ = 0;
};

RLCORE_ALGORITHM_BEGIN

RLCORE_NOINLINE inline void exact_arithmetic::add(exact_sum& sum, double x) noexcept {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t exponent = (bits >> 52) & 0x7ffu;
  if (exponent == 0x7ffu) {
    sum.special_ += x;
    return;
  }
  const std::uint64_t mantissa = (bits & ((std::uint64_t{1} << 52) - 1)) | (std::uint64_t{exponent != 0} << 52);
  const std::uint64_t position = exponent - (exponent != 0);
  const std::uint64_t shift = position & 31;
  // Two's complement: 32 + 32 bits without a sign, the rest has it. No branch on the sign, which is random.
  const std::int64_t negative = -static_cast<std::int64_t>(bits >> 63);
  const std::int64_t m = (static_cast<std::int64_t>(mantissa) ^ negative) - negative;
  const std::uint64_t low = static_cast<std::uint64_t>(m) << shift;
  std::int64_t* d = sum.digit_.data() + (position >> 5);
  d[2] += (m >> 1) >> (63 - shift);
  d[0] += static_cast<std::int64_t>(low & 0xffffffffu);
  d[1] += static_cast<std::int64_t>(low >> 32);
  if (++sum.pending_ == exact_sum::limit) carry(sum);
}

RLCORE_NOINLINE inline void exact_arithmetic::join(exact_sum& sum, const exact_sum& other) noexcept {
  if (sum.pending_ + other.pending_ >= exact_sum::limit) carry(sum);
  for (std::size_t i = 0; i < exact_sum::digits; ++i) sum.digit_[i] += other.digit_[i];
  sum.pending_ += other.pending_;
  sum.special_ += other.special_;
  if (sum.pending_ >= exact_sum::limit) carry(sum);
}

RLCORE_NOINLINE inline double exact_arithmetic::value(const exact_sum& sum) noexcept {
  constexpr std::size_t digits = exact_sum::digits;
  if (sum.special_ != 0) return sum.special_;  // infinite or NaN
  exact_sum s = sum;
  carry(s);
  const bool negative = s.digit_[digits - 1] < 0;
  if (negative) {
    for (std::int64_t& d : s.digit_) d = -d;
    carry(s);
  }
  std::size_t top = digits;
  while (top > 0 && s.digit_[top - 1] == 0) --top;
  if (top == 0) return 0.0;
  // The upper 64 bits of the number, and whether anything is left below them.
  const auto at = [&](std::size_t below_top) {
    return top > below_top ? static_cast<std::uint64_t>(s.digit_[top - 1 - below_top]) : 0u;
  };
  const int lead = std::countl_zero(static_cast<std::uint32_t>(at(0)));
  std::uint64_t head = at(0) << 32 | at(1);
  bool rest = false;
  if (lead > 0) head = head << lead | at(2) >> (32 - lead);
  rest = static_cast<std::uint32_t>(at(2) << lead) != 0;
  for (std::size_t i = 3; i < top && !rest; ++i) rest = at(i) != 0;
  // Exponent of the last bit of `head`; subnormal results keep fewer bits.
  int last = 32 * (static_cast<int>(top) - 2) - lead - 1074;
  int drop = 11;
  if (last + drop < -1074) drop = -1074 - last;
  if (drop > 0) {
    const std::uint64_t half = drop > 64 ? 0 : std::uint64_t{1} << (drop - 1);
    const std::uint64_t kept = drop > 63 ? 0 : head >> drop;
    const std::uint64_t lost = drop > 63 ? head : head & ((half << 1) - 1);
    const bool up = lost > half || (lost == half && (rest || (kept & 1u)));
    head = kept + up;
    last += drop;
  }
  const double magnitude = std::ldexp(static_cast<double>(head), last);
  return negative ? -magnitude : magnitude;
}

/// Brings every digit into [0, 2^32) except the last, which keeps the sign.
RLCORE_NOINLINE inline void exact_arithmetic::carry(exact_sum& sum) noexcept {
  std::int64_t above = 0;
  for (std::size_t i = 0; i + 1 < exact_sum::digits; ++i) {
    const std::int64_t d = sum.digit_[i] + above;
    above = d >> 32;
    sum.digit_[i] = d & 0xffffffff;
  }
  sum.digit_[exact_sum::digits - 1] += above;
  sum.pending_ = 1;
}

RLCORE_ALGORITHM_END
RLCORE_END
