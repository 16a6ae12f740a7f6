// Helpers for advantages on a device: live slots, programs over matrices, sums over a whole batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "rlcore/device/losses/evaluate.hpp"
#include "rlcore/device/losses/rows.hpp"
#include "rlcore/objective/advantage/detail/tokens.hpp"
#include "rlcore/objective/loop/device_batch.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace device_advantages {

using device_losses::room;
using device_losses::uploaded;

/// A read-only vector. The parameter type is not deduced, so tensors convert to views.
template <class Device>
using vector_in = std::type_identity_t<device_view<const float, 1, Device>>;
/// A writable vector.
template <class Device>
using vector_out = std::type_identity_t<device_view<float, 1, Device>>;
/// A read-only matrix.
template <class Device>
using matrix_in = std::type_identity_t<device_view<const float, 2, Device>>;
/// A writable matrix.
template <class Device>
using matrix_out = std::type_identity_t<device_view<float, 2, Device>>;
/// The mask of a matrix; empty: no mask.
template <class Device>
using mask_in = std::type_identity_t<device_mask<Device>>;

/// The value of masked slots in a maximum, below every counted value.
inline constexpr double lowest = -static_cast<double>(std::numeric_limits<float>::max());

/// The k-th array of a program of its own.
inline traced in(std::size_t k) { return traced::field_value(field_at(k), 0); }
/// condition ? a : b.
inline traced select(const traced_mask& condition, const traced& a, const traced& b) {
  return traced_math::select(condition, a, b);
}
/// Whether x is not NaN, which marks an unscored row.
inline traced_mask is_number(const traced& x) { return x == x; }

/// Program input with one value per slot.
inline program_input<float> by_slot(const float* x, extent_t width) { return {x, width, 1}; }
/// Program input with one value per row.
inline program_input<float> by_row(const float* x) { return {x, 1, 0}; }
/// Program input with one value per column.
inline program_input<float> by_column(const float* x) { return {x, 0, 1}; }
/// Program input with a single value.
inline program_input<float> for_all(const float* x) { return {x, 0, 0}; }

/// A matrix [rows, width] on a device, the domain of programs. A slot counts if `live` > 0; without `live` every slot
/// counts.
struct slot_shape {
  extent_t rows = 0, width = 0;
  const float* live = nullptr;
  extent_t slots() const noexcept { return rows * width; }
};

/// to[k] = values[k] for slots that count, else 0; in(0), in(1), ... are `inputs`. Runs one program.
template <class Device>
void compute(Device& device, const slot_shape& s, std::initializer_list<program_input<float>> inputs,
             std::initializer_list<traced> values, std::initializer_list<float*> to) {
  program_writer writer;
  for (const traced& v : values) writer.result("value", v);
  program_arrays<float> arrays;
  arrays.rows = s.rows, arrays.width = s.width;
  std::size_t k = 0;
  for (const program_input<float>& x : inputs) arrays.input[0][k++] = x;
  if (s.live != nullptr) arrays.live = {s.live, s.width, 1};
  const std::vector<float*> results(to);
  arrays.results = results;
  device.run(op::run_program{.program = writer.finish(), .arrays = arrays});
}

/// live[rows, width]: 1 where the mask is not 0, or everywhere without a mask.
template <class Device>
buffer<float, Device> live_of(Device& device, const token_mask& mask, const extents<2>& shape) {
  auto live = room(device, shape[0] * shape[1]);
  mask_elements elements;
  if (mask.present()) elements = {mask.data, shape[0] * shape[1], mask.bytes, mask.floating};
  device.run(op::live_slots{.live = live.data(), .mask = elements, .rows = shape[0], .width = shape[1]});
  return live;
}

/// total[0] = the sum of x[rows, width].
template <class Device>
void sum_of_all(Device& device, float* total, const float* x, extent_t rows, extent_t width) {
  auto sums = room(device, rows);
  device.run(op::row_sums{.sums = sums.data(), .x = x, .rows = rows, .width = width});
  device.run(op::row_sums{.sums = total, .x = sums.data(), .rows = 1, .width = rows});
}

}  // namespace device_advantages
RLCORE_ALGORITHM_END
RLCORE_END
