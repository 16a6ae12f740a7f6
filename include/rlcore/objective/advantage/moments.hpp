// Mean and variance in two passes, merged over micro-batches and ranks with bit-identical results.
#pragma once

#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/simd/exact_sum.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Result of the first pass: count, sum, and whether all values are the same. Parts may be joined with += in any order.
class moment_sums {
 public:
  /// `count` values with this sum; `value` is one of them, and `same` says that all are equal.
  void add(std::int64_t count, double sum, double value, bool same) noexcept {
    if (count == 0) return;
    same_ = same && (count_ == 0 || (same_ && value_ == value));
    value_ = value;
    count_ += count;
    sum_.add(sum);
  }
  /// Joins the result of another part of the values.
  moment_sums& operator+=(const moment_sums& other) noexcept {
    if (other.count_ == 0) return *this;
    same_ = other.same_ && (count_ == 0 || (same_ && value_ == other.value_));
    value_ = other.value_;
    count_ += other.count_;
    sum_ += other.sum_;
    return *this;
  }

  std::int64_t count() const noexcept { return count_; }
  /// Whether all values are the same: decided by comparing them. False if one is not a number.
  bool flat() const noexcept { return same_; }
  /// 0 without values; exactly the common value if they are all the same.
  double mean() const noexcept {
    return count_ == 0 ? 0.0 : same_ ? value_ : sum_.value() / static_cast<double>(count_);
  }

 private:
  std::int64_t count_ = 0;
  exact_sum sum_;
  double value_ = 0;
  bool same_ = false;
};

/// Result of the second pass: the sum of (x - mean)^2. Parts may be joined with += in any order.
struct squared_deviations {
  exact_sum sum;

  /// Joins the result of another part of the values.
  squared_deviations& operator+=(const squared_deviations& other) noexcept {
    sum += other.sum;
    return *this;
  }
};

/// (x - centre) scale + shift
struct affine {
  double centre = 0, scale = 1, shift = 0;
  /// The map applied to x.
  double operator()(double x) const noexcept { return (x - centre) * scale + shift; }
};

RLCORE_ALGORITHM_END
RLCORE_END
