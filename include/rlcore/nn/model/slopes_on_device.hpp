// Slopes that are computed in the memory of the model's device.
#pragma once

#include <cstddef>
#include <stdexcept>

#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/objective/loop/device_batch.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

/// Slopes that are computed in the memory of the model's device: f(logp, entropy, dlogp, dentropy), for score models
/// f(value, dvalue), gets vectors there, as fields of token_batch<float, Device> and token_gradients<float, Device>
/// take them. If the host cannot read that memory, none of them comes to it, the backward runs for every target, since
/// the host does not know which slopes are 0, and context parallelism throws std::invalid_argument.
template <class F>
struct slopes_on_device {
  F f;
};
template <class F>
slopes_on_device(F) -> slopes_on_device<F>;

namespace detail {

template <class>
inline constexpr bool on_device = false;
template <class F>
inline constexpr bool on_device<slopes_on_device<F>> = true;

/// Memory of the device for the slopes of n targets, all 0. Throws std::invalid_argument unless those are all that are
/// wanted.
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
