// The weights of all linear layers once more, in the order and format in which the device multiplies by them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace nn {

/// Packed weight number n begins at data + offsets[n].
struct packed_view {
  weight_format format = weight_format::float32;
  const std::byte* data = nullptr;
  const std::size_t* offsets = nullptr;

  const std::byte* at(std::size_t n) const { return data + offsets[n]; }
};

/// A weight [outputs, inputs] that starts at `offset` of the model's weights.
struct matrix {
  std::size_t offset = 0;
  extent_t outputs = 0, inputs = 0;
};

/// One format's copy. Packed once after each change of the weights and read by every pass until the next: training,
/// scoring and generation multiply by the same bytes. Nothing is allocated before the first use.
template <class Device>
class packed_weights {
 public:
  explicit packed_weights(weight_format format) : format_(format) {}

  weight_format format() const noexcept { return format_; }
  std::size_t bytes() const noexcept { return data_.size(); }
  void forget() noexcept { current_ = false; }

  packed_view view(Device& device, std::span<const matrix> matrices, const float* weights) {
    if (offsets_.empty()) {
      std::size_t size = 0;
      for (const matrix& m : matrices) {
        offsets_.push_back(size);
        size += (device.packed_bytes(format_, m.outputs, m.inputs) + 63) / 64 * 64;
      }
      data_ = buffer<std::byte, Device>(device, size);
    }
    if (!current_)
      for (std::size_t n = 0; n < matrices.size(); ++n)
        device.pack_weight(data_.data() + offsets_[n], format_, weights + matrices[n].offset, matrices[n].outputs,
                           matrices[n].inputs);
    current_ = true;
    return {format_, data_.data(), offsets_.data()};
  }

 private:
  weight_format format_;
  bool current_ = false;
  std::vector<std::size_t> offsets_;
  buffer<std::byte, Device> data_;
};

}  // namespace nn
RLCORE_END
