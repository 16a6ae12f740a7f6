// Blockwise sums of squares, for a gradient norm that does not depend on sharding.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN

/// out[b] (host memory) = the sum of squares of values [b * block, (b + 1) * block) of x [n], in double: computed by
/// the device if it supports that, else by the host.
template <memory_device Device>
void block_sums_of_squares(Device& device, const float* x, extent_t n, extent_t block, double* out) {
  if constexpr (requires { device.block_sums_of_squares(x, n, block, out); }) {
    device.block_sums_of_squares(x, n, block, out);
  } else {
    std::vector<float> host(static_cast<std::size_t>(n));
    device.download(host.data(), x, host.size() * sizeof(float));
    for (extent_t first = 0; first < n; first += block) {
      double sum = 0;
      for (extent_t i = first; i < std::min(n, first + block); ++i) {
        const auto value = static_cast<double>(host[static_cast<std::size_t>(i)]);
        sum += value * value;
      }
      *out++ = sum;
    }
  }
}

RLCORE_END
