// AdamW (Loshchilov & Hutter 2019) over a model's flat weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace optim {

/// Defaults of verl and torch.optim.AdamW; weight decay applies to every parameter, biases and norms included.
struct adamw_settings {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
};

/// First and second moments and the number of steps taken; the update itself is device::adamw.
template <class Device>
class adamw {
 public:
  adamw(Device& device, std::size_t size, adamw_settings settings = {})
      : device_(&device), settings_(settings), m_(device, size), v_(device, size) {
    reset();
  }

  const adamw_settings& settings() const noexcept { return settings_; }
  std::size_t size() const noexcept { return m_.size(); }
  /// Steps taken: with m() and v() the whole state, to be saved and restored by a checkpoint.
  std::int64_t steps() const noexcept { return steps_; }
  void set_steps(std::int64_t steps) noexcept { steps_ = steps; }
  buffer<float, Device>& m() noexcept { return m_; }
  buffer<float, Device>& v() noexcept { return v_; }

  void reset() {
    device_->fill_zero(m_.data(), m_.size() * sizeof(float));
    device_->fill_zero(v_.data(), v_.size() * sizeof(float));
    steps_ = 0;
  }

  /// weights [size()] -= the update for gradient_scale * gradient [size()] at learning rate lr.
  template <class Weights, class Gradient>
  void step(Weights& weights, const Gradient& gradient, double lr, float gradient_scale = 1) {
    if (weights.size() != size() || gradient.size() != size())
      throw std::invalid_argument("rlcore: adamw of " + std::to_string(size()) + " values got " +
                                  std::to_string(weights.size()) + " weights and " + std::to_string(gradient.size()) +
                                  " gradients");
    ++steps_;
    const adamw_step how{lr,     settings_.beta1, settings_.beta2, settings_.eps, settings_.weight_decay,
                         steps_, gradient_scale};
    device_->adamw(weights.data(), m_.data(), v_.data(), gradient.data(), static_cast<extent_t>(size()), how);
    device_->wait();
  }

 private:
  Device* device_;
  adamw_settings settings_;
  buffer<float, Device> m_, v_;
  std::int64_t steps_ = 0;
};

}  // namespace optim
RLCORE_END
