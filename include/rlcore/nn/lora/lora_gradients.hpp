// LoRA gradients, without the gradients of the adapted matrices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/nn/head/head.hpp"
#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/model/pass.hpp"

RLCORE_BEGIN
namespace nn {

/// As nn::gradients, for values() of a lora: with s = alpha / rank, u = x A^T and dU = dy B of an adapted linear, dB =
/// s dy^T u and dA = s dU^T x; x and dy are those of the merged model. Everything else is frozen. Accumulates over
/// calls since zero(); the bits do not depend on the split of sequences into calls.
template <class Device>
class lora_gradients {
 public:
  /// Zeros, of the size of adapter.values(). Model and adapter must outlive this.
  explicit lora_gradients(const causal_lm<Device>& model, const lora<Device>& adapter)
      : device_(&model.device()),
        adapter_(&adapter),
        model_size_(model.size()),
        raw_(model.device(), adapter.size()),
        wide_(model.device(), std::max<std::size_t>(1, adapter.wide_size())),
        linears_(model.matrices().size()) {
    for (const auto& g : adapter.groups()) {
      linears_[g.number] = {g.rank, adapter.packed_a(g), adapter.wide_b(g), raw_.data() + g.a, wide_.data() + g.wide};
      most_rank_ = std::max(most_rank_, g.rank);
    }
    zero();
  }

  const buffer<float, Device>& flat() const {
    finish();
    return flat_;
  }
  const float* data() const { return flat().data(); }
  std::size_t size() const noexcept { return adapter_->size(); }
  /// Throws std::invalid_argument unless these gradients match the model and its adapter.
  void check(const causal_lm<Device>& model) const {
    if (model.size() != model_size_)
      throw std::invalid_argument("rlcore: adapters of a model of " + std::to_string(model_size_) +
                                  " values for one of " + std::to_string(model.size()));
  }

  void zero() {
    raw_.fill_zero();
    wide_.fill_zero();
    finished_ = false;
  }

  /// As of nn::gradients.
  void swap(buffer<float, Device>& other) {
    finish();
    std::swap(flat_, other);
    zero();
  }
  /// Allocates memory for flat() after swap() gave it away; its content is not read.
  void give(buffer<float, Device>&& memory) { flat_ = std::move(memory); }

  /// As of nn::gradients.
  void balance(std::vector<float> slopes) { balance_ = std::move(slopes); }
  const std::vector<float>& balance() const noexcept { return balance_; }

  /// Before a backward.
  void begin(pass<Device>& p) {
    if (p.expert) throw config_error("LoRA: adapters cannot be trained while ranks divide the experts");
    finished_ = false;
    view_ = {linears_, p.space.template take<float>(p.tokens * most_rank_),
             p.space.template take<float>(p.tokens * most_rank_)};
    p.adapter = &view_, p.balance = balance_;
  }
  /// The head of a score model is trained in full (PEFT: modules_to_save).
  score_gradient score(const linear& output, const pass<Device>&) {
    float* weight = raw_.data() + adapter_->score();
    return {weight, output.bias == no_parameter ? nullptr : weight + output.inputs, true};
  }
  /// The embedding is frozen.
  void complete(const pass<Device>&, std::span<const std::int32_t>, const float*) noexcept {}
  /// The same in a stage without the embedding.
  void complete_layers(const pass<Device>&) noexcept {}

 private:
  /// Converts sums to gradients: copies the diagonal blocks to their places, times s.
  void finish() const {
    if (std::exchange(finished_, true)) return;
    if (flat_.size() != size()) flat_ = buffer<float, Device>(*device_, size());
    const auto trained = static_cast<extent_t>(adapter_->score());
    parallel::copy_values(*device_, flat_.data(), raw_.data(), size());
    const extent_t r = adapter_->rank();
    for (const auto& g : adapter_->groups())
      for (std::size_t i = g.begin; i < g.end; ++i) {
        const auto& p = adapter_->projections()[i];
        device_->run(op::copy_rows{.y = flat_.data() + p.b,
                                   .y_row = r,
                                   .x = wide_.data() + g.wide + adapter_->wide_offset(g, i),
                                   .x_row = g.rank,
                                   .count = p.outputs,
                                   .width = r});
      }
    device_->run(
        op::scale{.y = flat_.data(), .factor = static_cast<float>(adapter_->settings().scale()), .n = trained});
    device_->wait();
  }

  Device* device_;
  const lora<Device>* adapter_;
  std::size_t model_size_;
  mutable buffer<float, Device> flat_;
  buffer<float, Device> raw_, wide_;  // sums before the factor; wide_: those of B
  std::vector<adapted_linear> linears_;
  extent_t most_rank_ = 0;
  adapter_pass view_;
  std::vector<float> balance_;
  mutable bool finished_ = false;
};

}  // namespace nn
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {
extern template class lora_gradients<cpu>;
extern template class lora_gradients<any_device>;
}  // namespace nn
RLCORE_END
#endif
