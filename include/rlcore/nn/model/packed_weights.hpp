// Packed copies of linear weights, in the device's matrix layout and format.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/parallel/device_memory.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

/// Packed weight number n begins at data + offsets[n].
struct packed_view {
  weight_format format = weight_format::float32;
  const std::byte* data = nullptr;
  const std::size_t* offsets = nullptr;

  /// The start of packed weight n.
  const std::byte* at(std::size_t n) const { return data + offsets[n]; }
  /// The same, or null if there are no packed weights.
  const std::byte* find(std::size_t n) const { return data == nullptr ? nullptr : at(n); }
};

/// A weight [outputs, inputs] that starts at `offset` of the model's weights, packed in `chunks` equal parts of its
/// inputs.
struct matrix {
  std::size_t offset = 0;
  extent_t outputs = 0, inputs = 0, chunks = 1;
};

/// Bytes of a chunk of its packed copy.
template <class Device>
std::size_t packed_chunk_bytes(Device& device, weight_format format, const matrix& m) {
  return (device.packed_bytes(format, m.outputs, m.inputs / m.chunks) + 63) / 64 * 64;
}
/// Bytes of the whole packed copy.
template <class Device>
std::size_t packed_bytes_of(Device& device, weight_format format, const matrix& m) {
  return static_cast<std::size_t>(m.chunks) * packed_chunk_bytes(device, format, m);
}
/// Writes rows [first, first + count) of the packed copy, `first` being a multiple of 32. `columns` is a reusable
/// scratch buffer.
template <class Device>
void pack_rows(Device& device, std::byte* to, weight_format format, const matrix& m, extent_t first, extent_t count,
               const float* rows, buffer<float, Device>& columns) {
  const extent_t width = m.inputs / m.chunks;
  const auto size = static_cast<std::size_t>(count * width);
  to += device.packed_bytes(format, first, width);
  if (m.chunks == 1)
    return device.run(
        op::pack_weight{.packed = to, .format = format, .weight = rows, .outputs = count, .inputs = width});
  if (columns.size() < size) columns = buffer<float, Device>(device, size);
  for (extent_t c = 0; c < m.chunks; ++c, to += packed_chunk_bytes(device, format, m)) {
    device.run(op::copy_rows{
        .y = columns.data(), .y_row = width, .x = rows + c * width, .x_row = m.inputs, .count = count, .width = width});
    device.run(
        op::pack_weight{.packed = to, .format = format, .weight = columns.data(), .outputs = count, .inputs = width});
  }
}
/// Writes the packed copy. `weights` are the model's weights.
template <class Device>
void pack_matrix(Device& device, std::byte* to, weight_format format, const matrix& m,
                 offset_pointer<const float> weights, buffer<float, Device>& columns) {
  pack_rows(device, to, format, m, 0, m.outputs, weights + m.offset, columns);
}

/// Fills `to` (device memory) with `n` weights from number `first` on, see causal_lm::fill(); in parallel on `readers`.
/// Calls read.prepare(first, n) before, if there is such a function, from this thread alone. A reader whose on_device()
/// is not null has the values there, from number `first` on.
template <class Device, class Read>
void read_weights(Device& device, float* to, std::size_t first, std::size_t n, Read& read,
                  const rlcore::threads& readers) {
  constexpr std::size_t block = std::size_t{1} << 16;
  if constexpr (requires { read.prepare(first, n); }) read.prepare(first, n);
  if constexpr (requires { read.on_device(first); })
    if (const float* const from = read.on_device(first)) return parallel::copy_values(device, to, from, n);
  std::vector<float> copy;
  parallel::with_host_view(device, to, n, copy, [&](std::span<float> values) {
    readers.for_each((n + block - 1) / block, [&](std::size_t i) {
      read(first + i * block, values.subspan(i * block, std::min(block, n - i * block)));
    });
  });
}

/// The packed copy in one format. Packed once after each change of the weights and read by every pass until the next:
/// training, scoring and generation use the same bytes. Allocates memory at the first use.
template <class Device>
class packed_weights {
 public:
  /// An empty copy; view() fills it.
  explicit packed_weights(weight_format format) : format_(format) {}

  weight_format format() const noexcept { return format_; }
  std::size_t bytes() const noexcept { return data_.size(); }
  void forget() noexcept { current_ = false; }

  /// Does a copy in this format exist, or one with its bits?
  bool holds(weight_format format) const noexcept {
    const bool same_bits = format_ == weight_format::bfloat16_exact && format == weight_format::float32;
    return current_ && (format_ == format || same_bits);
  }

  /// The packed copy of `weights` (device memory), rebuilt if they have changed since the last call (forget()).
  packed_view view(Device& device, std::span<const matrix> matrices, const float* weights) {
    if (!current_) place(device, matrices);
    if (!current_)
      for (std::size_t n = 0; n < matrices.size(); ++n)
        pack_matrix(device, data_.data() + offsets_[n], format_, matrices[n], weights, columns_);
    current_ = true;
    return {format_, data_.data(), offsets_.data()};
  }

  /// Packs weights that are not in memory, strip by strip, see causal_lm::fill().
  template <class Read>
  void fill(Device& device, std::span<const matrix> matrices, Read& read, const rlcore::threads& readers) {
    constexpr extent_t floats = extent_t{1} << 20;  // floats per strip, to stay in the cache
    place(device, matrices);
    current_ = false;
    buffer<float, Device> strip;
    for (std::size_t n = 0; n < matrices.size(); ++n) {
      const matrix& m = matrices[n];
      const extent_t most = std::min(m.outputs, std::max<extent_t>(1, floats / m.inputs / 32) * 32);
      if (const auto size = static_cast<std::size_t>(most * m.inputs); strip.size() < size) strip = {device, size};
      for (extent_t row = 0; row < m.outputs; row += most) {
        const extent_t count = std::min(most, m.outputs - row);
        read_weights(device, strip.data(), m.offset + static_cast<std::size_t>(row * m.inputs),
                     static_cast<std::size_t>(count * m.inputs), read, readers);
        pack_rows(device, data_.data() + offsets_[n], format_, m, row, count, strip.data(), columns_);
      }
    }
    device.wait();
    current_ = true;
  }

 private:
  /// Allocates memory for the copies.
  void place(Device& device, std::span<const matrix> matrices) {
    if (offsets_.size() == matrices.size()) return;
    offsets_.clear();
    std::size_t size = 0;
    for (const matrix& m : matrices) {
      offsets_.push_back(size);
      size += packed_bytes_of(device, format_, m);
    }
    data_ = buffer<std::byte, Device>(device, size);
  }

  weight_format format_;
  bool current_ = false;
  std::vector<std::size_t> offsets_;
  buffer<std::byte, Device> data_;
  buffer<float, Device> columns_;  // of one chunk
};

}  // namespace nn
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {
extern template class packed_weights<cpu>;
extern template class packed_weights<any_device>;
}  // namespace nn
RLCORE_END
#endif
