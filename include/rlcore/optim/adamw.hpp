// AdamW (Loshchilov & Hutter 2019) over a model's flat weights, and clipping by the global norm.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace optim {

/// Defaults of verl and torch.optim.AdamW; weight decay applies to every parameter, biases and norms included, except
/// to those named to adamw::exempt().
struct adamw_settings {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
};

/// The values [first, last) of an optimizer are those of the weights from `weights` on.
struct adamw_piece {
  std::size_t first = 0, last = 0, weights = 0;
};

/// First and second moments and the number of steps taken; the update itself is device::adamw.
template <class Device>
class adamw {
 public:
  /// Moments of `size` weights in the memory of `device`, 0 at first.
  adamw(Device& device, std::size_t size, adamw_settings settings = {})
      : device_(&device), settings_(settings), m_(device, size), v_(device, size) {
    reset();
  }

  const adamw_settings& settings() const noexcept { return settings_; }
  std::size_t size() const noexcept { return m_.size(); }
  /// Steps taken: with m() and v() the whole state, to be saved and restored by a checkpoint.
  std::int64_t steps() const noexcept { return steps_; }
  /// Sets the number of steps taken, to resume from a checkpoint.
  void set_steps(std::int64_t steps) noexcept { steps_ = steps; }
  buffer<float, Device>& m() noexcept { return m_; }
  buffer<float, Device>& v() noexcept { return v_; }
  const buffer<float, Device>& m() const noexcept { return m_; }
  const buffer<float, Device>& v() const noexcept { return v_; }

  /// The weights [first, last) have no weight decay from now on. Ranges come in order and do not overlap.
  void exempt(std::size_t first, std::size_t last) {
    if (first > last || last > size() || (!exempt_.empty() && first < exempt_.back().second))
      throw std::invalid_argument("rlcore: adamw of " + std::to_string(size()) + " values: no decay for [" +
                                  std::to_string(first) + ", " + std::to_string(last) + ") after others");
    if (settings_.weight_decay != 0) exempt_.emplace_back(first, last);
  }

  /// Steps leave the weights and moments of the values [first, last) as they are from now on. Ranges come in order and
  /// do not overlap.
  void freeze(std::size_t first, std::size_t last) {
    if (first > last || last > size() || (!frozen_.empty() && first < frozen_.back().second))
      throw std::invalid_argument("rlcore: adamw of " + std::to_string(size()) + " values: [" + std::to_string(first) +
                                  ", " + std::to_string(last) + ") cannot be frozen after others");
    frozen_.emplace_back(first, last);
  }

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
    const adamw_piece whole{0, size(), 0};
    step(std::span(&whole, 1), weights.data(), gradient.data(), lr, gradient_scale);
  }
  /// The same for weights in separate places. `pieces` come in order and cover all of size(), or its first values;
  /// `gradient` [size()].
  void step(std::span<const adamw_piece> pieces, float* weights, const float* gradient, double lr,
            float gradient_scale = 1) {
    ++steps_;
    step_further(pieces, weights, gradient, lr, gradient_scale);
  }
  /// Updates the pieces that the last step() left out; the gradient of value i of size() is at gradient + i.
  void step_further(std::span<const adamw_piece> pieces, float* weights, offset_pointer<const float> gradient,
                    double lr, float gradient_scale = 1) {
    auto exempt = exempt_.begin();
    for (const adamw_piece& piece : pieces) {
      const auto update_trained = [&](std::size_t first, std::size_t last, double decay) {
        if (first >= last) return;
        const adamw_step step{lr, settings_.beta1, settings_.beta2, settings_.eps, decay, steps_, gradient_scale};
        device_->run(op::adamw{.weights = weights + piece.weights + (first - piece.first),
                               .m = m_.data() + first,
                               .v = v_.data() + first,
                               .gradient = gradient + first,
                               .n = static_cast<extent_t>(last - first),
                               .step = step});
      };
      const auto update = [&](std::size_t first, std::size_t last, double decay) {
        for (const auto& [begin, end] : frozen_) {
          update_trained(first, std::min(begin, last), decay);
          first = std::max(first, std::min(end, last));
        }
        update_trained(first, last, decay);
      };
      for (std::size_t done = piece.first; done < piece.last;) {
        while (exempt != exempt_.end() && exempt->second <= done) ++exempt;
        const bool next = exempt != exempt_.end() && exempt->first < piece.last;
        const std::size_t first = next ? std::max(exempt->first, done) : piece.last;
        const std::size_t last = next ? std::min(exempt->second, piece.last) : piece.last;
        update(done, first, settings_.weight_decay);
        update(first, last, 0);
        done = last;
      }
    }
    device_->wait();
  }

 private:
  Device* device_;
  adamw_settings settings_;
  buffer<float, Device> m_, v_;
  std::int64_t steps_ = 0;
  std::vector<std::pair<std::size_t, std::size_t>> exempt_, frozen_;
};

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

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace optim {
extern template class adamw<cpu>;
extern template class adamw<any_device>;
}  // namespace optim
RLCORE_END
#endif
