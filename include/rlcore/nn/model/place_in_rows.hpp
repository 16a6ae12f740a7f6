// Keys and values of packed sequences in the layer's own qkv rows (no KV cache).
#pragma once

#include <span>

#include "rlcore/nn/attention/attention.hpp"
#include "rlcore/nn/model/workspace.hpp"

RLCORE_BEGIN
namespace nn {

/// Segments that read keys and values from the qkv rows of the layer itself.
template <class Device>
auto place_in_rows(workspace<Device>& space, const attention& a) {
  return [&space, &a](const float* qkv) {
    for (attention_segment& s : space.segments) {
      s.key_row = a.width();
      s.keys = qkv + s.first_row * s.key_row + a.q_width();
      s.values = s.keys + a.kv_width();
    }
    return std::span<const attention_segment>(space.segments);
  };
}

/// The same for their gradients.
template <class Device>
auto place_gradients_in_rows(workspace<Device>& space, const attention& a) {
  return [&space, &a](float* dqkv) {
    space.segment_gradients.clear();
    for (const attention_segment& s : space.segments) {
      float* keys = dqkv + s.first_row * a.width() + a.q_width();
      space.segment_gradients.push_back({keys, keys + a.kv_width()});
    }
    return std::span<const attention_segment_gradient>(space.segment_gradients);
  };
}

}  // namespace nn
RLCORE_END
