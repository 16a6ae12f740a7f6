// Type-erased policy algorithm: the training loop is compiled once for all algorithms.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "rlcore/device/any_device.hpp"
#include "rlcore/trainer/policy/algorithm/algorithm.hpp"
#include "rlcore/trainer/policy/algorithm/loss_on_device.hpp"
#include "rlcore/trainer/policy/algorithm/policy_loss.hpp"

RLCORE_BEGIN
namespace trainer {

/// Holds any policy_algorithm. One virtual call per micro-batch; every further algorithm costs the build its fused
/// loop, not a second trainer. Copies share what they hold.
class any_algorithm {
 public:
  /// Takes a copy of the algorithm.
  template <class A>
  requires(!std::same_as<A, any_algorithm> && policy_algorithm<A>) any_algorithm(A algorithm)
      : held_(std::make_shared<const holder<A>>(std::move(algorithm))) {}

  field reads() const { return held_->reads(); }
  bool reference_stays() const { return held_->reference_stays(); }
  advantage_input inputs() const { return held_->inputs(); }
  /// Calls the held algorithm; see policy_algorithm.
  void advantages(std::span<trajectory> batch, std::int64_t samples, random_key key) const {
    held_->advantages(batch, samples, key);
  }
  /// Calls the held algorithm; see policy_algorithm.
  policy_report loss(const policy_rows& rows, const global_counts& step, std::span<float> dlogp,
                     std::span<float> dentropy) const {
    return held_->loss(rows, step, dlogp, dentropy);
  }
  /// See any_policy_loss::on_device.
  std::unique_ptr<loss_on_device> on_device(any_device& device, const global_counts& step, extent_t rows) const {
    return held_->on_device(device, step, rows);
  }

 private:
  struct interface {
    virtual ~interface() = default;
    virtual field reads() const = 0;
    virtual bool reference_stays() const = 0;
    virtual advantage_input inputs() const = 0;
    virtual void advantages(std::span<trajectory>, std::int64_t, random_key) const = 0;
    virtual policy_report loss(const policy_rows&, const global_counts&, std::span<float>, std::span<float>) const = 0;
    virtual std::unique_ptr<loss_on_device> on_device(any_device&, const global_counts&, extent_t) const = 0;
  };
  template <class A>
  struct holder final : interface {
    explicit holder(A a) : algorithm(std::move(a)) {}
    field reads() const override { return algorithm.reads(); }
    bool reference_stays() const override { return reference_may_stay(algorithm); }
    advantage_input inputs() const override { return inputs_of(algorithm); }
    void advantages(std::span<trajectory> batch, std::int64_t samples, random_key key) const override {
      algorithm.advantages(batch, samples, key);
    }
    policy_report loss(const policy_rows& rows, const global_counts& step, std::span<float> dlogp,
                       std::span<float> dentropy) const override {
      return algorithm.loss(rows, step, dlogp, dentropy);
    }
    std::unique_ptr<loss_on_device> on_device(any_device& device, const global_counts& step,
                                              extent_t rows) const override {
      if constexpr (loss_of_device<A, any_device>)
        return algorithm.on_device(device, step, rows);
      else
        return nullptr;
    }
    A algorithm;
  };

  std::shared_ptr<const interface> held_;
};

}  // namespace trainer
RLCORE_END
