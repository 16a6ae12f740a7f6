// Gradient accumulation of an optimizer step: sum over leaves, for full weights or LoRA adapters.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/lora/lora_gradients.hpp"
#include "rlcore/nn/model/gradients.hpp"
#include "rlcore/parallel/reduction/reduction_tree.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace train {

/// An optimizer step is begin(); then take() or skip() for every leaf, in order, or one take(); then finish().
template <class Device>
class leaf_sum {
 public:
  /// Sums vectors of `size` values along the tree over `leaves` leaves. `device` must outlive this.
  leaf_sum(Device& device, std::size_t size, std::size_t leaves) : device_(&device), size_(size), tree_(leaves) {}

  /// Takes back the memory of the last sum.
  void begin() {
    for (auto& e : tree_.entries())
      if (e.value) idle_.push_back(std::move(*e.value));
    tree_.clear();
  }
  /// Takes the gradient of a leaf. Leaves memory for the next one in `gradient`, or an empty buffer.
  void take(std::size_t leaf, buffer<float, Device>& gradient) {
    push(leaf, std::move(gradient));
    gradient = {};
    if (!idle_.empty()) gradient = std::move(idle_.back()), idle_.pop_back();
  }
  /// The leaf has no rows.
  void skip(std::size_t leaf) { push(leaf, std::nullopt); }
  /// The sum in device memory, 0 if no leaf has rows; valid until begin().
  const float* finish() {
    auto& entries = tree_.entries();
    if (!entries.empty() && entries[0].value) return entries[0].value->data();
    begin();
    buffer<float, Device> sum(*device_, size_);
    sum.fill_zero();
    push(0, std::move(sum));
    return entries[0].value->data();
  }

 private:
  void push(std::size_t leaf, std::optional<buffer<float, Device>> value) {
    tree_.push_leaf(leaf, std::move(value), [this](buffer<float, Device>& left, buffer<float, Device>&& right) {
      device_->run(op::add{.y = left.data(), .a = left.data(), .b = right.data(), .n = static_cast<extent_t>(size_)});
      device_->wait();
      idle_.push_back(std::move(right));
    });
  }

  Device* device_;
  std::size_t size_;
  parallel::reduction_tree<buffer<float, Device>> tree_;
  std::vector<buffer<float, Device>> idle_;
};

/// The gradient of the weights or of the adapters, behind a common interface.
template <class Device>
class step_gradient {
 public:
  /// The gradient of `adapter`, or of all weights of `model` if it is null; both must outlive this object. `lazy`:
  /// allocates memory when a pass needs it.
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
  /// Moves the accumulated gradient to sums.take(leaf, buffer), which leaves memory for the next leaf, or none. The
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

}  // namespace train

RLCORE_END
