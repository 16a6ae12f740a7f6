// AdamW (Loshchilov & Hutter 2019) over a model's flat weights, and clipping by the global norm.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/optim/host_floats.hpp"
#include "rlcore/parallel/device_memory.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace optim {

/// Where an optimizer keeps its moments: in the memory of the device, or offloaded to the host's, as a file of a folder
/// if one is named.
struct moment_place {
  bool host = false;
  std::string folder = {};
};

/// Defaults of verl and torch.optim.AdamW; weight decay applies to every parameter, biases and norms included, except
/// to those named to adamw::exempt().
struct adamw_settings {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  moment_place moments = {};
};

/// Values of an offloaded moment that are on the device at a time, if it does not read the memory of the host: 16 MiB.
inline constexpr std::size_t most_staged = std::size_t{1} << 22;

/// One moment of all values.
template <class Device>
class moment {
 public:
  /// `size` values in the memory of `device` or on the host, 0 at first. Throws error if a folder cannot hold them.
  moment(Device& device, std::size_t size, const moment_place& place)
      : device_(&device),
        on_device_(device, place.host ? 0 : size),
        on_host_(place.host ? size : 0, place.folder),
        offloaded_(place.host) {
    if (!offloaded_) on_device_.fill_zero();  // pages of the host are 0 at first
  }

  std::size_t size() const noexcept { return offloaded_ ? on_host_.size() : on_device_.size(); }
  bool offloaded() const noexcept { return offloaded_; }
  /// The values in the memory of the device, or of the host if they are offloaded.
  float* data() noexcept { return offloaded_ ? on_host_.data() : on_device_.data(); }
  const float* data() const noexcept { return offloaded_ ? on_host_.data() : on_device_.data(); }
  /// Copies `values` to value `first` and those after it. Throws std::invalid_argument if they are too many.
  void upload(std::span<const float> values, std::size_t first = 0) {
    check(values.size(), first);
    if (offloaded_)
      std::ranges::copy(values, on_host_.data() + first);
    else if (!values.empty())
      device_->upload(on_device_.data() + first, values.data(), values.size_bytes());
  }
  /// Copies to the host the values from `first` on. Throws std::invalid_argument if they are too many.
  void download(std::span<float> values, std::size_t first = 0) const {
    check(values.size(), first);
    if (offloaded_)
      std::copy_n(on_host_.data() + first, values.size(), values.data());
    else if (!values.empty())
      device_->download(values.data(), on_device_.data() + first, values.size_bytes());
  }
  void fill_zero() {
    if (offloaded_)
      std::fill_n(on_host_.data(), on_host_.size(), 0.0f);
    else
      on_device_.fill_zero();
  }

 private:
  void check(std::size_t count, std::size_t first) const {
    if (count > size() || first > size() - count)
      throw std::invalid_argument("rlcore: moment of " + std::to_string(size()) + " values: " + std::to_string(count) +
                                  " from number " + std::to_string(first) + " on");
  }

  Device* device_;
  buffer<float, Device> on_device_;
  host_floats on_host_;
  bool offloaded_;
};

/// The values [first, last) of an optimizer are those of the weights from `weights` on.
struct adamw_piece {
  std::size_t first = 0, last = 0, weights = 0;
};

/// First and second moments and the number of steps taken; the update itself is op::adamw. During a step
/// offloaded moments pass in parts through the memory of a device that does not read the host's; no bit depends on
/// where they are.
template <class Device>
class adamw {
 public:
  /// Moments of `size` weights of `device`, 0 at first.
  adamw(Device& device, std::size_t size, adamw_settings settings = {})
      : device_(&device),
        settings_(std::move(settings)),
        m_(device, size, settings_.moments),
        v_(device, size, settings_.moments) {}

  const adamw_settings& settings() const noexcept { return settings_; }
  std::size_t size() const noexcept { return m_.size(); }
  /// Steps taken: with m() and v() the whole state, to be saved and restored by a checkpoint.
  std::int64_t steps() const noexcept { return steps_; }
  /// Sets the number of steps taken, to resume from a checkpoint.
  void set_steps(std::int64_t steps) noexcept { steps_ = steps; }
  moment<Device>& m() noexcept { return m_; }
  moment<Device>& v() noexcept { return v_; }
  const moment<Device>& m() const noexcept { return m_; }
  const moment<Device>& v() const noexcept { return v_; }

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
    m_.fill_zero(), v_.fill_zero();
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
    std::optional<staged_moments> staged;
    if (m_.offloaded() && !parallel::host_reads(*device_)) staged.emplace(*device_, std::min(size(), most_staged));
    for (const adamw_piece& piece : pieces) {
      const auto update_trained = [&](std::size_t first, std::size_t last, double decay) {
        const adamw_step step{lr, settings_.beta1, settings_.beta2, settings_.eps, decay, steps_, gradient_scale};
        const auto run = [&](std::size_t begin, std::size_t n, float* m, float* v) {
          device_->run(op::adamw{.weights = weights + piece.weights + (begin - piece.first),
                                 .m = m,
                                 .v = v,
                                 .gradient = gradient + begin,
                                 .n = static_cast<extent_t>(n),
                                 .step = step});
        };
        if (first >= last) return;
        if (!staged) return run(first, last - first, m_.data() + first, v_.data() + first);
        for (std::size_t begin = first; begin < last; begin += most_staged) {
          const std::size_t n = std::min(last - begin, most_staged);
          staged->load(m_.data() + begin, v_.data() + begin, n);
          run(begin, n, staged->m.data(), staged->v.data());
          staged->store(m_.data() + begin, v_.data() + begin, n);
        }
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
  struct staged_moments {
    Device& device;
    buffer<float, Device> m, v;

    staged_moments(Device& d, std::size_t size) : device(d), m(d, size), v(d, size) {}
    void load(const float* from_m, const float* from_v, std::size_t n) {
      device.upload(m.data(), from_m, n * sizeof(float));
      device.upload(v.data(), from_v, n * sizeof(float));
    }
    void store(float* to_m, float* to_v, std::size_t n) {
      device.download(to_m, m.data(), n * sizeof(float));
      device.download(to_v, v.data(), n * sizeof(float));
    }
  };

  Device* device_;
  adamw_settings settings_;
  moment<Device> m_, v_;
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
