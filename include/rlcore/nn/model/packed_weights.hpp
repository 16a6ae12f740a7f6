// The weights of all linear layers once more, in the order and format in which the device multiplies by them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/tensor/offset_pointer.hpp"

RLCORE_BEGIN
namespace nn {

/// Packed weight number n begins at data + offsets[n].
struct packed_view {
  weight_format format = weight_format::float32;
  const std::byte* data = nullptr;
  const std::size_t* offsets = nullptr;

  /// Where packed weight number n begins.
  const std::byte* at(std::size_t n) const { return data + offsets[n]; }
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
/// Of the whole copy.
template <class Device>
std::size_t packed_bytes_of(Device& device, weight_format format, const matrix& m) {
  return static_cast<std::size_t>(m.chunks) * packed_chunk_bytes(device, format, m);
}
/// Writes the packed copy. `weights` are the model's; `columns` is memory that may be used and grown.
template <class Device>
void pack_matrix(Device& device, std::byte* to, weight_format format, const matrix& m,
                 offset_pointer<const float> weights, buffer<float, Device>& columns) {
  if (m.chunks == 1) return device.pack_weight(to, format, weights + m.offset, m.outputs, m.inputs);
  const extent_t width = m.inputs / m.chunks;
  const auto size = static_cast<std::size_t>(m.outputs * width);
  if (columns.size() < size) columns = buffer<float, Device>(device, size);
  for (extent_t c = 0; c < m.chunks; ++c, to += packed_chunk_bytes(device, format, m)) {
    device.copy_rows(columns.data(), width, nullptr, weights + m.offset + c * width, m.inputs, m.outputs, width);
    device.pack_weight(to, format, columns.data(), m.outputs, width);
  }
}

/// One format's copy. Packed once after each change of the weights and read by every pass until the next: training,
/// scoring and generation multiply by the same bytes. Nothing is allocated before the first use.
template <class Device>
class packed_weights {
 public:
  /// An empty copy; view() makes it.
  explicit packed_weights(weight_format format) : format_(format) {}

  weight_format format() const noexcept { return format_; }
  std::size_t bytes() const noexcept { return data_.size(); }
  void forget() noexcept { current_ = false; }

  /// The packed copy of `weights` (device memory), made anew if they have changed since the last call (forget()).
  packed_view view(Device& device, std::span<const matrix> matrices, const float* weights) {
    if (offsets_.empty()) {
      std::size_t size = 0;
      for (const matrix& m : matrices) {
        offsets_.push_back(size);
        size += packed_bytes_of(device, format_, m);
      }
      data_ = buffer<std::byte, Device>(device, size);
    }
    if (!current_)
      for (std::size_t n = 0; n < matrices.size(); ++n)
        pack_matrix(device, data_.data() + offsets_[n], format_, matrices[n], weights, columns_);
    current_ = true;
    return {format_, data_.data(), offsets_.data()};
  }

 private:
  weight_format format_;
  bool current_ = false;
  std::vector<std::size_t> offsets_;
  buffer<std::byte, Device> data_;
  buffer<float, Device> columns_;  // of one chunk
};

}  // namespace nn
RLCORE_END
