// The backward of norms of heads, whose weight all heads share.
#pragma once

#include <cstddef>

#include "rlcore/nn/layer/norm.hpp"
#include "rlcore/nn/model/pass.hpp"

RLCORE_BEGIN
namespace nn {

/// The gradient of n's input takes the place of dy, rows of `dy_row`. The weight's gradient is a sum over rows and
/// heads: over both in order, or with p.head_gradients for each head over the rows, [heads, width] from `sums` on, to
/// be added later in the order of the heads; ranks that have some of the heads then have the bits of one rank.
template <class Device>
void backward_of_heads(const pass<Device>& p, const norm& n, std::size_t sums, float* dy, extent_t dy_row,
                       const float* x, extent_t x_row, const float* rstd) {
  const extent_t t = p.tokens;
  const bool apart = p.gradients && p.head_gradients;
  if (apart) {
    const typename workspace<Device>::scope scope(p.space);
    float* rstd_of_head = p.space.template take<float>(t);
    norm one = n;
    one.groups = 1;
    for (extent_t g = 0; g < n.groups; ++g) {
      p.device.copy_rows(rstd_of_head, 1, nullptr, rstd + g, n.groups, t, 1);
      p.device.rms_norm_backward_weight(one.arguments(p.weights, x_row),
                                        p.head_gradients + sums + static_cast<std::size_t>(g * n.width),
                                        dy + g * n.width, dy_row, x + g * n.width, rstd_of_head, t);
    }
  }
  n.backward(p.device, p.weights, apart ? nullptr : p.gradients, dy, dy, dy_row, x, x_row, rstd, t, false);
}

}  // namespace nn
RLCORE_END
