// Gradient accumulation of an optimizer step: sum over leaves, for full weights or LoRA adapters.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/lora/lora_gradients.hpp"
#include "rlcore/nn/model/gradients.hpp"
#include "rlcore/nn/model/units.hpp"
#include "rlcore/parallel/reduction/reduction.hpp"
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
    gradient = spare();
  }
  /// Memory for the gradient of a leaf, or an empty buffer.
  buffer<float, Device> spare() {
    buffer<float, Device> memory;
    if (!idle_.empty()) memory = std::move(idle_.back()), idle_.pop_back();
    return memory;
  }
  /// The gradient of the leaf before, if the tree adds this leaf's to it next: then the caller may add it there and
  /// skip() the leaf. Null otherwise.
  float* left_of(std::size_t leaf) {
    buffer<float, Device>* const left = tree_.left_of(leaf);
    return left == nullptr ? nullptr : left->data();
  }
  /// Frees all memory; there is no sum until the next step.
  void release() {
    tree_.clear();
    idle_.clear();
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
  /// The gradient of `adapter`, or of all weights of `model` if it is null; both must outlive this object. Allocates
  /// memory for the latter when a pass needs it.
  step_gradient(const nn::causal_lm<Device>& model, const nn::lora<Device>* adapter) {
    if (adapter)
      of_adapters_.emplace(model, *adapter);
    else
      of_weights_.emplace(model, true);
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

  /// Can add_by_units() be called? Not for adapters, which are small, vision towers and tensor parallel models.
  bool can_add_by_units(const nn::causal_lm<Device>& model) const noexcept {
    return of_weights_ && of_weights_->can_go_by_units() && !model.settings().vision && model.part().tensor_size == 1;
  }
  /// Calls pass(), one forward_backward, and adds its gradient to `sum` unit by unit (nn::unit_ends): it is never in
  /// memory as a whole.
  template <class F>
  void add_by_units(const nn::causal_lm<Device>& model, float* sum, F&& pass) {
    struct adder final : nn::unit_sink {
      Device& device;
      std::span<const std::size_t> ends;
      float* sum;
      adder(Device& d, std::span<const std::size_t> e, float* s) : device(d), ends(e), sum(s) {}
      void take(std::size_t unit, const float* gradient) override {
        const std::size_t first = unit == 0 ? 0 : ends[unit - 1];
        float* const to = sum + first;
        device.run(op::add{.y = to, .a = to, .b = gradient, .n = static_cast<extent_t>(ends[unit] - first)});
        device.wait();
      }
    };
    const std::vector<std::size_t> ends = nn::unit_ends(model.parameters());
    adder to(model.device(), ends, sum);
    nn::gradients<Device>& g = *of_weights_;
    g.by_units(ends, &to);
    pass();
    g.by_units({}, nullptr);
  }
  /// Provides memory of the sums, if the gradient has none.
  template <class Sums>
  void borrow(Sums& sums) {
    if (of_weights_ && !of_weights_->has_memory()) of_weights_->give(sums.spare());
  }
  /// Frees the memory of the weights' gradient, until the next use.
  void release() {
    if (of_weights_) of_weights_->release();
  }

  void zero() {
    with([](auto& g) { g.zero(); });
  }
  /// As nn::gradients::balance.
  void balance(std::vector<float> slopes) {
    with([&](auto& g) { g.balance(std::move(slopes)); });
  }
  /// Moves the accumulated gradient of weights to `values`, and uses `memory` for the next one.
  void take(buffer<float, Device>& values, buffer<float, Device>&& memory) {
    of_weights().swap(values);
    of_weights().give(std::move(memory));
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
