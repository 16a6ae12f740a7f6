// The three passes of whitening over rows of masked tokens.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "rlcore/exec/executor.hpp"
#include "rlcore/objective/advantage/detail/token_block.hpp"
#include "rlcore/objective/advantage/moments.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace whitening_loop {

using token_block::eight;
using token_block::tokens;

/// What one row adds to the moments.
struct row_sum {
  double sum = 0, low = std::numeric_limits<double>::infinity(), high = -low;
  std::int64_t count = 0;
};

/// f(x, live bits, number of live tokens, block) for every block of the row with a live token; x holds its live tokens,
/// then `fill`.
template <class Values, class F>
void each_live_block(const Values& values, const token_mask& mask, extent_t row, double fill, F f) {
  alignas(64) double x[tokens];
  for (extent_t first = 0; first < values.shape[1]; first += static_cast<extent_t>(tokens)) {
    const token_block::block_of block(values, row, first);
    const std::uint64_t bits = token_block::live_bits(mask, row, first, block.count);
    if (bits == 0) continue;
    std::size_t live = tokens;
    if (bits == token_block::all_live)
      block.read_all(x);
    else
      std::fill(x + (live = block.read_live(bits, x)), x + tokens, fill);
    f(static_cast<const double*>(x), live);
  }
}

template <class Values>
row_sum sum_of_row(const Values& values, const token_mask& mask, extent_t row) {
  row_sum result;
  eight sum = eight::of(0.0), low = eight::of(result.low), high = eight::of(result.high);
  each_live_block(values, mask, row, 0.0, [&](const double* x, std::size_t live) {
    for (std::size_t k = 0; k < tokens; k += 8)
      sum = each([](auto a, auto b) { return a + b; }, sum, eight::load(x + k));
    if (live == tokens) {
      for (std::size_t k = 0; k < tokens; k += 8) {
        const eight e = eight::load(x + k);
        low = each([](auto a, auto b) { return choose(b < a, b, a); }, low, e);
        high = each([](auto a, auto b) { return choose(b > a, b, a); }, high, e);
      }
    } else {
      for (std::size_t k = 0; k < live; ++k)
        result.low = std::min(result.low, x[k]), result.high = std::max(result.high, x[k]);
    }
    result.count += static_cast<std::int64_t>(live);
  });
  double lane[8];
  low.store(lane);
  result.low = std::min(result.low, *std::min_element(lane, lane + 8));
  high.store(lane);
  result.high = std::max(result.high, *std::max_element(lane, lane + 8));
  result.sum = sum.total();
  return result;
}

template <class Values>
double squares_of_row(const Values& values, const token_mask& mask, extent_t row, double mean) {
  eight sum = eight::of(0.0);
  const pack<double> centre(mean);
  each_live_block(values, mask, row, mean, [&](const double* x, std::size_t) {
    for (std::size_t k = 0; k < tokens; k += 8)
      sum = each(
          [centre](auto a, auto b) {
            const auto d = b - centre;
            return multiply_add(d, d, a);
          },
          sum, eight::load(x + k));
  });
  return sum.total();
}

template <class Values, class Out>
void transform_row(const Values& values, const token_mask& mask, const affine& map, const Out& out, extent_t row) {
  using result = typename Out::value_type;
  alignas(64) double x[tokens];
  const pack<double> centre(map.centre), scale(map.scale), shift(map.shift);
  for (extent_t first = 0; first < values.shape[1]; first += static_cast<extent_t>(tokens)) {
    const token_block::block_of from(values, row, first);
    const token_block::block_of to(out, row, first);
    const std::uint64_t bits = token_block::live_bits(mask, row, first, from.count);
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
moment_sums sums(const Executor& exec, const Values& values, const token_mask& mask) {
  detail::check_mask_shape(mask, "values", values.shape);
  std::vector<row_sum> row(static_cast<std::size_t>(values.shape[0]));
  exec.for_each(row.size(), [&](std::size_t i) { row[i] = sum_of_row(values, mask, static_cast<extent_t>(i)); });
  moment_sums total;
  for (const row_sum& r : row) total.add(r.count, r.sum, r.low, r.high);
  return total;
}

template <class Executor, class Values>
squared_deviations squares(const Executor& exec, const Values& values, const token_mask& mask, double mean) {
  detail::check_mask_shape(mask, "values", values.shape);
  std::vector<double> row(static_cast<std::size_t>(values.shape[0]));
  exec.for_each(row.size(),
                [&](std::size_t i) { row[i] = squares_of_row(values, mask, static_cast<extent_t>(i), mean); });
  squared_deviations total;
  for (const double r : row) total.sum.add(r);
  return total;
}

template <class Executor, class Values, class Out>
void transform(const Executor& exec, const Values& values, const token_mask& mask, const affine& map, const Out& out) {
  detail::check_mask_shape(mask, "values", values.shape);
  detail::check_shape("whitened values", out.shape, "values", values.shape);
  exec.for_each(static_cast<std::size_t>(values.shape[0]),
                [&](std::size_t i) { transform_row(values, mask, map, out, static_cast<extent_t>(i)); });
}

}  // namespace whitening_loop
RLCORE_ALGORITHM_END
RLCORE_END
