// The three passes of whitening over rows of masked tokens.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/order.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/advantage/detail/tokens.hpp"
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

namespace whitening_loop {

using token_block::eight;
using token_block::tokens;

/// What one row adds to the moments.
struct row_sum {
  double sum = 0, value = 0;
  std::int64_t count = 0;
  bool same = true;
};

/// Where the live tokens are: read from the mask, or from an earlier pass's copy.
class live_blocks {
 public:
  live_blocks(const token_mask& mask, const extents<2>& shape) noexcept
      : mask_(mask), per_row_((shape[1] + static_cast<extent_t>(tokens) - 1) / static_cast<extent_t>(tokens)) {}

  void keep(extent_t rows) { kept_.resize(static_cast<std::size_t>(rows * per_row_)); }
  extent_t per_row() const noexcept { return per_row_; }
  std::uint64_t first_time(extent_t row, extent_t block, std::size_t count) noexcept {
    const std::uint64_t bits = token_block::live_bits(mask_, row, block * static_cast<extent_t>(tokens), count);
    if (!kept_.empty()) kept_[at(row, block)] = bits;
    return bits;
  }
  std::uint64_t again(extent_t row, extent_t block, std::size_t count) const noexcept {
    if (!kept_.empty()) return kept_[at(row, block)];
    return token_block::live_bits(mask_, row, block * static_cast<extent_t>(tokens), count);
  }

 private:
  std::size_t at(extent_t row, extent_t block) const noexcept {
    return static_cast<std::size_t>(row * per_row_ + block);
  }

  token_mask mask_;
  extent_t per_row_;
  scratch_vector<std::uint64_t> kept_;
};

/// x <- the live tokens of a block, then `fill`. Returns how many are live.
template <class Block>
std::size_t stage(const Block& block, std::uint64_t bits, double fill, double* x) {
  if (bits == token_block::all_live) {
    block.read_all(x);
    return tokens;
  }
  const std::size_t live = block.read_live(bits, x);
  detail::fill(x + live, x + tokens, fill);
  return live;
}

template <class Values>
row_sum sum_of_row(const Values& values, live_blocks& live, extent_t row) {
  row_sum result;
  eight sum = eight::of(0.0);
  alignas(64) double x[tokens];
  for (extent_t b = 0; b < live.per_row(); ++b) {
    const token_block::block_of block(values, row, b * static_cast<extent_t>(tokens));
    const std::uint64_t bits = live.first_time(row, b, block.count);
    if (bits == 0) continue;
    const std::size_t count = stage(block, bits, 0.0, x);
    for (std::size_t k = 0; k < tokens; k += 8)
      sum = each([](auto a, auto v) { return a + v; }, sum, eight::load(x + k));
    if (result.count == 0) result.value = x[0];
    for (std::size_t k = 0; k < count && result.same; ++k) result.same = x[k] == result.value;
    result.count += static_cast<std::int64_t>(count);
  }
  result.sum = sum.total();
  return result;
}

template <class Values>
double squares_of_row(const Values& values, const live_blocks& live, extent_t row, double mean) {
  eight sum = eight::of(0.0);
  const pack<double> centre(mean);
  alignas(64) double x[tokens];
  for (extent_t b = 0; b < live.per_row(); ++b) {
    const token_block::block_of block(values, row, b * static_cast<extent_t>(tokens));
    const std::uint64_t bits = live.again(row, b, block.count);
    if (bits == 0) continue;
    stage(block, bits, mean, x);
    for (std::size_t k = 0; k < tokens; k += 8)
      sum = each(
          [centre](auto a, auto v) {
            const auto d = v - centre;
            return multiply_add(d, d, a);
          },
          sum, eight::load(x + k));
  }
  return sum.total();
}

template <class Values, class Out>
void transform_row(const Values& values, const live_blocks& live, const affine& map, const Out& out, extent_t row) {
  using result = typename Out::value_type;
  alignas(64) double x[tokens];
  const pack<double> centre(map.centre), scale(map.scale), shift(map.shift);
  for (extent_t b = 0; b < live.per_row(); ++b) {
    const token_block::block_of from(values, row, b * static_cast<extent_t>(tokens));
    const token_block::block_of to(out, row, b * static_cast<extent_t>(tokens));
    const std::uint64_t bits = live.again(row, b, from.count);
    if (bits == 0) {
      to.write_zeros();
      continue;
    }
    if (bits == token_block::all_live)
      from.read_all(x);
    else
      for (std::size_t k = 0; k < tokens; ++k)
        x[k] = token_block::is_live(bits, k) ? static_cast<double>(from[k]) : 0.0;
    for (std::size_t k = 0; k < tokens; k += 8)
      each([&](auto v) { return (v - centre) * scale + shift; }, eight::load(x + k)).store(x + k);
    if (bits == token_block::all_live)
      to.write_all(x);
    else
      for (std::size_t k = 0; k < to.count; ++k)
        to[k] = token_block::is_live(bits, k) ? static_cast<result>(x[k]) : result(0);
  }
}

template <class Executor, class Values>
moment_sums sums(const Executor& exec, const Values& values, live_blocks& live) {
  scratch_vector<row_sum> row(static_cast<std::size_t>(values.shape[0]));
  exec.for_each(row.size(), [&](std::size_t i) { row[i] = sum_of_row(values, live, static_cast<extent_t>(i)); });
  moment_sums total;
  for (const row_sum& r : row) total.add(r.count, r.sum, r.value, r.same);
  return total;
}

template <class Executor, class Values>
squared_deviations squares(const Executor& exec, const Values& values, const live_blocks& live, double mean) {
  scratch_vector<double> row(static_cast<std::size_t>(values.shape[0]));
  exec.for_each(row.size(),
                [&](std::size_t i) { row[i] = squares_of_row(values, live, static_cast<extent_t>(i), mean); });
  squared_deviations total;
  for (const double r : row) total.sum.add(r);
  return total;
}

template <class Executor, class Values, class Out>
void transform(const Executor& exec, const Values& values, const live_blocks& live, const affine& map, const Out& out) {
  detail::check_shape("whitened values", out.shape, "values", values.shape);
  exec.for_each(static_cast<std::size_t>(values.shape[0]),
                [&](std::size_t i) { transform_row(values, live, map, out, static_cast<extent_t>(i)); });
}

/// Statistics and transform in one go; the mask is read once.
template <class Executor, class Whitening, class Values, class Out>
void all_passes(const Executor& exec, const Whitening& whiten, const Values& values, const token_mask& mask,
                const Out& out) {
  detail::check_mask_shape(mask, "values", values.shape);
  live_blocks live(mask, values.shape);
  live.keep(values.shape[0]);
  const moment_sums s = sums(exec, values, live);
  transform(exec, values, live, whiten.map(s, squares(exec, values, live, s.mean())), out);
}

}  // namespace whitening_loop

RLCORE_ALGORITHM_END
RLCORE_END
