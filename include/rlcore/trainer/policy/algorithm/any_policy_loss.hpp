// A policy loss whose type is forgotten.
#pragma once

#include <memory>
#include <span>
#include <type_traits>
#include <utility>

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
  /// Calls the held loss; see policy_loss.
  void select(std::span<trajectory> batch, random_key key) const { held_->select(batch, key); }
  /// Calls the held loss; see policy_loss.
  policy_report loss(const policy_rows& rows, const global_counts& step, std::span<float> dlogp,
                     std::span<float> dentropy) const {
    return held_->loss(rows, step, dlogp, dentropy);
  }

 private:
  struct interface {
    virtual ~interface() = default;
    virtual field reads() const = 0;
    virtual void select(std::span<trajectory>, random_key) const = 0;
    virtual policy_report loss(const policy_rows&, const global_counts&, std::span<float>, std::span<float>) const = 0;
  };
  template <class L>
  struct holder final : interface {
    explicit holder(L l) : held(std::move(l)) {}
    field reads() const override { return held.reads(); }
    void select(std::span<trajectory> batch, random_key key) const override { held.select(batch, key); }
    policy_report loss(const policy_rows& rows, const global_counts& step, std::span<float> dlogp,
                       std::span<float> dentropy) const override {
      return held.loss(rows, step, dlogp, dentropy);
    }
    L held;
  };

  std::shared_ptr<const interface> held_;
};

}  // namespace trainer
RLCORE_END
