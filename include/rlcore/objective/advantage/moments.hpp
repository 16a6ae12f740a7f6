// Mean and variance in two passes, joinable over micro-batches and ranks without a trace in the bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "rlcore/core/abi.hpp"
#include "rlcore/simd/exact_sum.hpp"

RLCORE_BEGIN

/// What the first pass finds: count, sum and extremes. Parts may be joined with += in any order.
class moment_sums {
 public:
  /// `count` values with this sum and these extremes; one row of a batch.
  void add(std::int64_t count, double sum, double low, double high) noexcept {
    if (count == 0) return;
    count_ += count;
    sum_.add(sum);
    low_ = std::min(low_, low);
    high_ = std::max(high_, high);
  }
  moment_sums& operator+=(const moment_sums& other) noexcept {
    count_ += other.count_;
    sum_ += other.sum_;
    low_ = std::min(low_, other.low_);
    high_ = std::max(high_, other.high_);
    return *this;
  }

  std::int64_t count() const noexcept { return count_; }
  /// Whether all values are the same: decided by comparing them. False if one is not a number.
  bool flat() const noexcept { return low_ == high_ && std::isfinite(sum_.value()); }
  /// 0 if there is no value; exactly the common value if they are all the same.
  double mean() const noexcept {
    return count_ == 0 ? 0.0 : flat() ? low_ : sum_.value() / static_cast<double>(count_);
  }

 private:
  std::int64_t count_ = 0;
  exact_sum sum_;
  double low_ = std::numeric_limits<double>::infinity(), high_ = -std::numeric_limits<double>::infinity();
};

/// What the second pass finds: the sum of (x - mean)^2. Parts may be joined with += in any order.
struct squared_deviations {
  exact_sum sum;

  squared_deviations& operator+=(const squared_deviations& other) noexcept {
    sum += other.sum;
    return *this;
  }
};

/// (x - centre) scale + shift
struct affine {
  double centre = 0, scale = 1, shift = 0;
  double operator()(double x) const noexcept { return (x - centre) * scale + shift; }
};

RLCORE_END
