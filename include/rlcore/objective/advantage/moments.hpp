// Mean and variance in two passes, joinable over micro-batches and ranks without a trace in the bits.
#pragma once

#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/simd/exact_sum.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// What the first pass finds: count, sum, and whether all values are the same. Parts may be joined with += in any
/// order.
class moment_sums {
 public:
  /// `count` values with this sum, one of which is `value`; `same` if all of them are.
  void add(std::int64_t count, double sum, double value, bool same) noexcept {
    if (count == 0) return;
    same_ = same && (count_ == 0 || (same_ && value_ == value));
    value_ = value;
    count_ += count;
    sum_.add(sum);
  }
  /// Joins what another part of the values gave.
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
  /// 0 if there is no value; exactly the common value if they are all the same.
  double mean() const noexcept {
    return count_ == 0 ? 0.0 : same_ ? value_ : sum_.value() / static_cast<double>(count_);
  }

 private:
  std::int64_t count_ = 0;
  exact_sum sum_;
  double value_ = 0;
  bool same_ = false;
};

/// What the second pass finds: the sum of (x - mean)^2. Parts may be joined with += in any order.
struct squared_deviations {
  exact_sum sum;

  /// Joins what another part of the values gave.
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
