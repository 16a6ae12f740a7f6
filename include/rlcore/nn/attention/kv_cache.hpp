// Paged KV cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlcore/core/error.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/nn/parallel/partition.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace nn {

/// `pages` pages of kv_page positions each. A page belongs to one sequence, or to several with a common prefix; page n
/// of the list given to decode() holds the positions from kv_page * n. Pages are stored layer by layer; the device
/// defines the layout of keys (after rotation) and values inside a page. Positions after a token are never read, so
/// pages need no clearing.
template <class Device>
class kv_cache {
 public:
  /// A tensor parallel rank stores only its heads.
  kv_cache(Device& device, const config& c, std::int64_t pages, const partition& part = {})
      : device_(&device),
        pages_(pages),
        page_size_(static_cast<extent_t>(device.kv_page_bytes(shape_of(c, part)) / sizeof(float))),
        layers_(static_cast<extent_t>(c.num_hidden_layers)) {
    require(pages > 0, "kv_cache: pages must be positive");
    memory_ = buffer<float, Device>(device, static_cast<std::size_t>(layers_ * pages * page_size_));
  }

  /// Bytes of one page of all layers.
  static std::size_t page_bytes(const Device& device, const config& c, const partition& part = {}) {
    return device.kv_page_bytes(shape_of(c, part)) * static_cast<std::size_t>(c.num_hidden_layers);
  }
  std::int64_t pages() const noexcept { return pages_; }
  std::size_t bytes() const noexcept { return memory_.size() * sizeof(float); }
  extent_t layers() const noexcept { return layers_; }
  /// First page of a layer, in the device's own format; pages are kv_page_bytes() apart.
  float* layer(extent_t l) noexcept { return memory_.data() + l * static_cast<extent_t>(pages_) * page_size_; }
  /// Copies all layers of page `from` to page `to`.
  void copy_page(std::int32_t to, std::int32_t from) {
    for (extent_t l = 0; l < layers_; ++l)
      device_->run(op::copy_rows{.y = layer(l) + to * page_size_,
                                 .y_row = page_size_,
                                 .x = layer(l) + from * page_size_,
                                 .x_row = page_size_,
                                 .count = 1,
                                 .width = page_size_});
  }

 private:
  static attention_shape shape_of(const config& c, const partition& part) {
    return {.heads = static_cast<extent_t>(c.num_attention_heads / part.tensor_size),
            .kv_heads = static_cast<extent_t>(key_heads(c.num_key_value_heads, part).size()),
            .head_dim = static_cast<extent_t>(c.head_dim ? c.head_dim : c.hidden_size / c.num_attention_heads)};
  }

  Device* device_;
  std::int64_t pages_;
  extent_t page_size_, layers_;
  buffer<float, Device> memory_;
};

}  // namespace nn
RLCORE_END
