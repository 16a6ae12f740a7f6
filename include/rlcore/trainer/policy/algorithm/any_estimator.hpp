// Type-erased advantage estimator.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "rlcore/trainer/policy/algorithm/estimate_advantages.hpp"

RLCORE_BEGIN
namespace trainer {

/// Holds any estimator that estimate_advantages() takes. Copies share what they hold.
class any_estimator {
 public:
  /// Takes a copy of the estimator.
  template <class E>
  requires(!std::same_as<E, any_estimator>) any_estimator(E estimator)
      : inputs_(inputs_of(estimator)), held_(std::make_shared<const holder<E>>(std::move(estimator))) {}

  advantage_input inputs() const noexcept { return inputs_; }
  /// estimate_advantages() with the held estimator.
  void operator()(std::span<trajectory> batch, std::int64_t samples) const { held_->estimate(batch, samples); }

 private:
  struct interface {
    virtual ~interface() = default;
    virtual void estimate(std::span<trajectory>, std::int64_t) const = 0;
  };
  template <class E>
  struct holder final : interface {
    explicit holder(E e) : held(std::move(e)) {}
    void estimate(std::span<trajectory> batch, std::int64_t samples) const override {
      estimate_advantages(held, batch, samples);
    }
    E held;
  };

  advantage_input inputs_;
  std::shared_ptr<const interface> held_;
};

}  // namespace trainer
RLCORE_END
