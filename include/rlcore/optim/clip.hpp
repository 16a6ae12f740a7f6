// Clipping by the global norm, as torch.nn.utils.clip_grad_norm_.
#pragma once

#include <cmath>
#include <stdexcept>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"

RLCORE_BEGIN
namespace optim {

/// L2 norm of the flat gradient, summed in double in fixed chunks. If the norm is not finite, it is returned as is and
/// the caller must skip the step.
template <class Device, class Gradient>
double global_norm(Device& device, const Gradient& gradient) {
  return std::sqrt(device.run(op::sum_of_squares{.x = gradient.data(), .n = static_cast<extent_t>(gradient.size())}));
}

/// min(1, max_norm / (norm + 1e-6)), what the gradient is to be multiplied by; 1 if max_norm <= 0 (no clipping).
/// Throws std::invalid_argument if the norm is not finite.
inline float clip_scale(double norm, double max_norm) {
  if (!std::isfinite(norm))
    throw std::invalid_argument("rlcore: clip_scale: the norm is not finite; skip the step instead");
  if (max_norm <= 0) return 1;
  const double scale = max_norm / (norm + 1e-6);
  return scale < 1 ? static_cast<float>(scale) : 1.0f;
}

}  // namespace optim
RLCORE_END
