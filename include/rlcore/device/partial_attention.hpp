// Optional device extension: attention over a part of the keys, continued in later calls.
#pragma once

#include <concepts>
#include <limits>
#include <span>

#include "rlcore/device/device.hpp"

RLCORE_BEGIN

/// Keys of a segment at positions [begin, end); attention_segment::keys points to the first. `begin` is a multiple of
/// the device's attention_tile(), and so is `end` unless no query of the segment is at position `end` or beyond. With
/// `resume` the call continues from the results of earlier parts; without `finish` the results are left for a later
/// part.
struct attention_part {
  extent_t begin = 0, end = std::numeric_limits<extent_t>::max();
  bool resume = false, finish = true;
};

/// attention_forward_part, in parts of ascending positions, and attention_backward_part (which adds to the gradients of
/// keys and values, and with `resume` to dq), in parts of descending ones, have the bits of attention_forward and
/// attention_backward over all keys at once; between parts, `out` is not normalised. In another order they agree up to
/// rounding. The gradients of one segment's keys have the layout of its keys.
template <class D>
concept partial_attention = device<D> &&
    requires(D& d, const D& constant, float* y, const float* x, extent_t n, const attention_shape& heads,
             std::span<const attention_segment> segments, std::span<const attention_part> parts,
             std::span<const attention_segment_gradient> gradients) {
  // keys per tile; 0: this device lacks the kernels, although its type has the functions
  { constant.attention_tile() } -> std::same_as<extent_t>;
  // as attention_forward, attention_backward
  d.attention_forward_part(heads, segments, parts, x, n, y, n, y);
  d.attention_backward_part(heads, segments, parts, gradients, x, n, x, x, n, x, y);
};

/// The attention tile of a device; 0 if it does not support partial attention.
template <device D>
extent_t attention_tile(const D& d) {
  if constexpr (partial_attention<D>) {
    return d.attention_tile();
  } else {
    return 0;
  }
}

RLCORE_END
