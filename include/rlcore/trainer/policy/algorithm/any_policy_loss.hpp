// Type-erased policy loss.
#pragma once

#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "rlcore/device/any_device.hpp"
#include "rlcore/trainer/policy/algorithm/loss_on_device.hpp"
#include "rlcore/trainer/policy/algorithm/policy_loss.hpp"

RLCORE_BEGIN
namespace trainer {

/// Holds any policy_loss, for one virtual call per micro-batch. Copies share what they hold.
class any_policy_loss {
 public:
  /// Takes a copy of the loss.
  template <class L>
  requires(!std::same_as<L, any_policy_loss> && policy_loss<L>) any_policy_loss(L loss)
      : held_(std::make_shared<const holder<L>>(std::move(loss))) {}

  field reads() const { return held_->reads(); }
  bool reference_stays() const { return held_->reference_stays(); }
  /// Calls the held loss; see policy_loss.
  void select(std::span<trajectory> batch, random_key key) const { held_->select(batch, key); }
  /// Calls the held loss; see policy_loss.
  policy_report loss(const policy_rows& rows, const global_counts& step, std::span<float> dlogp,
                     std::span<float> dentropy) const {
    return held_->loss(rows, step, dlogp, dentropy);
  }
  /// The loss of one optimizer step of at most `rows` rows in the memory of `device`, which must support losses; null
  /// if the held loss is host-only.
  std::unique_ptr<loss_on_device> on_device(any_device& device, const global_counts& step, extent_t rows) const {
    return held_->on_device(device, step, rows);
  }

 private:
  struct interface {
    virtual ~interface() = default;
    virtual field reads() const = 0;
    virtual bool reference_stays() const = 0;
    virtual void select(std::span<trajectory>, random_key) const = 0;
    virtual policy_report loss(const policy_rows&, const global_counts&, std::span<float>, std::span<float>) const = 0;
    virtual std::unique_ptr<loss_on_device> on_device(any_device&, const global_counts&, extent_t) const = 0;
  };
  template <class L>
  struct holder final : interface {
    explicit holder(L l) : held(std::move(l)) {}
    field reads() const override { return held.reads(); }
    bool reference_stays() const override { return reference_may_stay(held); }
    void select(std::span<trajectory> batch, random_key key) const override { held.select(batch, key); }
    policy_report loss(const policy_rows& rows, const global_counts& step, std::span<float> dlogp,
                       std::span<float> dentropy) const override {
      return held.loss(rows, step, dlogp, dentropy);
    }
    std::unique_ptr<loss_on_device> on_device(any_device& device, const global_counts& step,
                                              extent_t rows) const override {
      if constexpr (loss_of_device<L, any_device>)
        return held.on_device(device, step, rows);
      else
        return nullptr;
    }
    L held;
  };

  std::shared_ptr<const interface> held_;
};

}  // namespace trainer
RLCORE_END
