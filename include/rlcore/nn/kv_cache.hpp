// Keys and values of running sequences.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlcore/core/error.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace nn {

/// Room for `slots` sequences of up to `capacity` tokens: per layer [slots, capacity, 2, kv_heads * head_dim], keys
/// after rotation. A slot is reused by writing its positions again from 0; nothing beyond a row's own position is ever
/// read.
template <class Device>
class kv_cache {
 public:
  kv_cache(Device& device, const config& c, std::int64_t slots, std::int64_t capacity)
      : slots_(slots),
        capacity_(capacity),
        width_(static_cast<extent_t>(c.num_key_value_heads *
                                     (c.head_dim ? c.head_dim : c.hidden_size / c.num_attention_heads))),
        layers_(static_cast<extent_t>(c.num_hidden_layers)) {
    require(slots > 0 && capacity > 0, "kv_cache: slots and capacity must be positive");
    memory_ = buffer<float, Device>(device, static_cast<std::size_t>(layers_ * slots * capacity * 2 * width_));
  }

  std::int64_t slots() const noexcept { return slots_; }
  std::int64_t capacity() const noexcept { return capacity_; }
  std::size_t bytes() const noexcept { return memory_.size() * sizeof(float); }
  extent_t layers() const noexcept { return layers_; }
  /// Floats of one position's keys, and of its values, which follow them.
  extent_t width() const noexcept { return width_; }
  extent_t row() const noexcept { return 2 * width_; }
  /// First row of a layer; row slot * capacity + position belongs to that position.
  float* layer(extent_t l) noexcept { return memory_.data() + l * static_cast<extent_t>(slots_ * capacity_) * row(); }

 private:
  std::int64_t slots_, capacity_;
  extent_t width_, layers_;
  buffer<float, Device> memory_;
};

}  // namespace nn
RLCORE_END
