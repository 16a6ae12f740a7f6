// Sums in equal parts that are added by pairs, so that ranks which have some of the parts add up to the same bits.
#pragma once

#include <cstddef>

#include "rlcore/nn/model/pass.hpp"

RLCORE_BEGIN
namespace nn {

/// out [count] = the sum of parts first .. first + n, n a power of two: halves of halves, as parallel::tree adds ranks.
/// f(part, out) writes one.
template <class Device, class F>
void sum_of_chunks(const pass<Device>& p, float* out, extent_t count, extent_t first, extent_t n, F&& f) {
  if (n == 1) return f(first, out);
  sum_of_chunks(p, out, count, first, n / 2, f);
  const typename workspace<Device>::scope scope(p.space);
  float* right = p.space.template take<float>(count);
  sum_of_chunks(p, right, count, first + n / 2, n / 2, f);
  p.device.add(out, out, right, count);
}

/// Columns [first, first + width) of x [rows, row], side by side; x itself where it has no others.
template <class Device>
const float* columns_of(const pass<Device>& p, const float* x, extent_t row, extent_t first, extent_t width,
                        extent_t rows) {
  if (width == row) return x;
  float* part = p.space.template take<float>(rows * width);
  p.device.copy_rows(part, width, nullptr, x + first, row, rows, width);
  return part;
}

/// Bytes between the parts of a packed weight whose inputs come in parts.
template <class Device>
std::size_t packed_chunk_bytes(Device& device, weight_format format, extent_t outputs, extent_t inputs) {
  return (device.packed_bytes(format, outputs, inputs) + 63) / 64 * 64;
}

}  // namespace nn
RLCORE_END
