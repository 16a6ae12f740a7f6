// The gradient of an optimizer step: of all weights, or with LoRA of the adapters.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/lora/lora_gradients.hpp"
#include "rlcore/nn/model/gradients.hpp"

RLCORE_BEGIN
namespace trainer {

/// One of the two kinds of gradients, behind the functions that they share.
template <class Device>
class step_gradient {
 public:
  /// Of `adapter`, or if it is null of all weights of `model`; both have to outlive this. `lazy`: takes memory when a
  /// pass needs it.
  step_gradient(const nn::causal_lm<Device>& model, const nn::lora<Device>* adapter, bool lazy) {
    if (adapter)
      of_adapters_.emplace(model, *adapter);
    else
      of_weights_.emplace(model, lazy);
  }

  /// Calls f with the gradient, of either kind.
  template <class F>
  void with(F&& f) {
    if (of_adapters_)
      f(*of_adapters_);
    else
      f(*of_weights_);
  }
  /// Throws std::bad_optional_access with LoRA.
  nn::gradients<Device>& of_weights() { return of_weights_.value(); }
  const nn::gradients<Device>& of_weights() const { return of_weights_.value(); }
  bool of_adapters() const noexcept { return of_adapters_.has_value(); }

  void zero() {
    with([](auto& g) { g.zero(); });
  }
  /// As nn::gradients::balance.
  void balance(std::vector<float> slopes) {
    with([&](auto& g) { g.balance(std::move(slopes)); });
  }
  /// Moves what was accumulated to sums.take(leaf, buffer), which leaves memory for what comes next, or none. The
  /// gradient is 0 afterwards.
  template <class Sums>
  void hand_over(Sums& sums, std::size_t leaf) {
    with([&](auto& g) {
      buffer<float, Device> values;
      g.swap(values);
      sums.take(leaf, values);
      g.give(std::move(values));
    });
  }

 private:
  std::optional<nn::gradients<Device>> of_weights_;
  std::optional<nn::lora_gradients<Device>> of_adapters_;
};

}  // namespace trainer
RLCORE_END
