// Loss slopes computed on the device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/objective/loop/device_batch.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

/// Computes slopes on the model's device: f(logp, entropy, dlogp, dentropy), for score models f(value, dvalue), gets
/// device vectors, as in the fields of token_batch<float, Device> and token_gradients<float, Device>. If the host
/// cannot read device memory, they are not copied to the host, and context parallelism throws std::invalid_argument.
/// The host then does not know which slopes are 0: the backward runs for every target, or, if `needed` (one host number
/// per target) is not empty, for those with nonzero `needed`. The other slopes must be 0.
template <class F>
struct slopes_on_device {
  F f;
  std::span<const float> needed = {};
};
template <class F>
slopes_on_device(F) -> slopes_on_device<F>;
template <class F>
slopes_on_device(F, std::span<const float>) -> slopes_on_device<F>;

namespace detail {

template <class>
inline constexpr bool on_device = false;
template <class F>
inline constexpr bool on_device<slopes_on_device<F>> = true;

/// Sets `marks` to nonzero for targets that take part in the backward.
inline void mark_needed(std::vector<float>& marks, std::span<const float> needed, std::size_t targets) {
  if (!needed.empty() && needed.size() != targets)
    throw std::invalid_argument("rlcore: slopes_on_device: " + std::to_string(targets) + " targets, " +
                                std::to_string(needed.size()) + " numbers of those that are needed");
  marks.assign(targets, 1.0f);
  std::copy(needed.begin(), needed.end(), marks.begin());
}

/// Device memory for the slopes of n targets, all 0. Throws std::invalid_argument unless n is the number of all
/// targets.
template <class Device>
float* take_slope_on_device(Device& device, workspace<Device>& space, extent_t n, std::size_t wanted) {
  if (static_cast<std::size_t>(n) != wanted)
    throw std::invalid_argument(
        "rlcore: slopes_on_device under context parallelism: each rank has the log-probs of its own targets; pass the "
        "function itself, which gets those of all targets on the host");
  float* slope = space.template take<float>(n);
  if (n > 0) device.fill_zero(slope, wanted * sizeof(float));
  return slope;
}

}  // namespace detail
}  // namespace nn
RLCORE_END
