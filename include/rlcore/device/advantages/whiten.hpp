// Whitening and normalization to mean 0 and variance 1 on a device.
#pragma once

#include <cstddef>
#include <vector>

#include "rlcore/device/advantages/slot_arrays.hpp"
#include "rlcore/objective/advantage/whitening.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace device_advantages {

/// The scale of x - mean: `squares` is the sum of squared deviations of `count` values.
inline traced scale_of(const whitening& w, const traced& count, const traced& squares) {
  const traced variance = squares / (w.sample_variance ? count - traced(1) : count), epsilon(w.epsilon);
  switch (w.guard) {
    case variance_guard::add_to_deviation:
      return traced(1) / (traced_math::sqrt(variance) + epsilon);
    case variance_guard::add:
      return traced(1) / traced_math::sqrt(variance + epsilon);
    default:
      return traced(1) / traced_math::sqrt(select(variance < epsilon, epsilon, variance));
  }
}

/// out = (x - mean) scale for the slots that count; each counts `weight` times in the statistics. Two passes, relative
/// to the largest value: if all values are equal, every difference is exactly 0. out may be x.
template <class Device>
void whiten(Device& device, const whitening& w, const slot_shape& s, const float* x, const float* weight, float* out) {
  auto row = room(device, s.rows), totals = room(device, 4);
  float *const highest = totals.data(), *const count = highest + 1, *const below = highest + 2,
               *const squares = highest + 3;
  auto part = room(device, s.slots());
  const auto each = by_slot(x, s.width), times = by_slot(weight, s.width);
  compute(device, {s.rows, s.width}, {each, times}, {select(traced(0) < in(1), in(0), traced(lowest))}, {part.data()});
  device.run(op::row_largest{.largest = row.data(), .x = part.data(), .rows = s.rows, .width = s.width});
  device.run(op::row_largest{.largest = highest, .x = row.data(), .rows = 1, .width = s.rows});
  sum_of_all(device, count, weight, s.rows, s.width);

  const slot_shape counted{s.rows, s.width, weight};
  compute(device, counted, {each, times, for_all(highest)}, {in(1) * (in(2) - in(0))}, {part.data()});
  sum_of_all(device, below, part.data(), s.rows, s.width);
  // in(2) to in(4): maximum, count, and the sum of the differences to the maximum
  const traced under = select(traced(0) < in(3), in(4) / in(3), traced(0));  // maximum - mean
  const traced centred = select(traced(0) < in(3), under - (in(2) - in(0)), in(0));
  const auto most = for_all(highest), many = for_all(count), all_below = for_all(below);
  if (w.scale) {
    compute(device, counted, {each, times, most, many, all_below}, {in(1) * (centred * centred)}, {part.data()});
    sum_of_all(device, squares, part.data(), s.rows, s.width);
  }
  traced result = centred;
  const traced_mask flat = traced_math::any(in(4) == traced(0), in(3) < traced(2));
  if (w.scale) result = result * select(flat, traced(1), scale_of(w, in(3), in(1)));
  if (!w.centre) result = result + select(traced(0) < in(3), in(2) - under, traced(0));
  compute(device, s, {each, w.scale ? for_all(squares) : many, most, many, all_below}, {result}, {out});
}

}  // namespace device_advantages

/// whitening of x[rows, tokens] in device memory; `out` may be x. Equals the host's operator() up to rounding in float;
/// squares of differences must fit a float, so values must not be 1e18 apart.
template <advantage_device Device>
void compute_advantages(Device& device, const whitening& w, device_advantages::matrix_in<Device> x,
                        device_advantages::mask_in<Device> mask, device_advantages::matrix_out<Device> out) {
  detail::check_mask_shape(mask, "values", x.shape);
  detail::check_shape("whitened values", out.shape, "values", x.shape);
  if (x.shape[0] * x.shape[1] == 0) return;
  const auto live = device_advantages::live_of(device, mask, x.shape);
  device_advantages::whiten(device, w, {x.shape[0], x.shape[1], live.data()}, x.data, live.data(), out.data);
}

namespace device_advantages {

/// row_normalization; without `length` every scored row counts once. NaN marks an unscored row, which gets 0.
template <class Device>
void normalize_rows(Device& device, const whitening& w, const float* x, const std::vector<float>& length, extent_t rows,
                    float* out) {
  if (rows == 0) return;
  auto scored = room(device, rows), weight = room(device, rows);
  const slot_shape all{1, rows};
  compute(device, all, {by_slot(x, rows)}, {select(is_number(in(0)), traced(1), traced(0))}, {scored.data()});
  const float* times = scored.data();
  if (!length.empty()) {
    const auto tokens = uploaded(device, length);
    compute(device, {1, rows, scored.data()}, {by_slot(tokens.data(), rows)}, {in(0)}, {weight.data()});
    times = weight.data();
  }
  whiten(device, w, {1, rows, scored.data()}, x, times, out);
}

/// Integer host lengths as floats, one for each row.
template <class Lengths>
std::vector<float> lengths_of(const Lengths& lengths, extent_t rows) {
  std::vector<float> length;
  for (const double n : detail::read_lengths(lengths, static_cast<std::size_t>(rows)))
    length.push_back(static_cast<float>(n));
  return length;
}
/// Throws std::invalid_argument unless `is` is the expected number, one for each reward.
inline void check_numbers(const char* name, extent_t is, extent_t expected) {
  if (is != expected)
    throw std::invalid_argument("rlcore: rewards are " + to_string<1>({expected}) + ", " + name + " are " +
                                to_string<1>({is}));
}

}  // namespace device_advantages

/// row_normalization in device memory; `out` may be x.
template <advantage_device Device>
void compute_advantages(Device& device, const row_normalization& n, device_advantages::vector_in<Device> x,
                        device_advantages::vector_out<Device> out) {
  device_advantages::check_numbers("normalized values", out.shape[0], x.shape[0]);
  device_advantages::normalize_rows(device, n.whiten, x.data, {}, x.shape[0], out.data);
}
/// The same; every row is weighted by its token count, given as host integers in `lengths`.
template <advantage_device Device, class Lengths>
void compute_advantages(Device& device, const row_normalization& n, device_advantages::vector_in<Device> x,
                        const Lengths& lengths, device_advantages::vector_out<Device> out) {
  device_advantages::check_numbers("normalized values", out.shape[0], x.shape[0]);
  device_advantages::normalize_rows(device, n.whiten, x.data, device_advantages::lengths_of(lengths, x.shape[0]),
                                    x.shape[0], out.data);
}

RLCORE_ALGORITHM_END
RLCORE_END
