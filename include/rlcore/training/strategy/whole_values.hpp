// Every rank holds all weights, or all adapters (ZeRO 0 to 2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/training/files/adapter_files.hpp"
#include "rlcore/training/files/model_files.hpp"
#include "rlcore/training/strategy/held_values.hpp"

RLCORE_BEGIN
namespace trainer {

/// With ZeRO 1 or more a rank's optimizer updates its shard, and the ranks gather what they have updated. Tensor
/// parallel ranks have all of their own part.
template <class Device>
class whole_values final : public held_values<Device> {
 public:
  /// Null `adapter`: all weights are trained. Both have to outlive this.
  whole_values(nn::causal_lm<Device>& model, nn::lora<Device>* adapter) : model_(&model), adapter_(adapter) {}

  const nn::causal_lm<Device>& passing() const override { return *model_; }
  std::span<const nn::parameter> parameters() const override {
    return adapter_ ? adapter_->parameters() : model_->parameters();
  }
  buffer<float, Device>& weights() override { return adapter_ ? adapter_->values() : model_->weights(); }
  /// By its place among the parameters.
  const float* place_of(const owned_run& run) override {
    return (adapter_ ? std::as_const(*adapter_).values() : std::as_const(*model_).weights()).data() + run.weights;
  }
  void set_tensor_group(nn::tensor_group& group) override { model_->set_tensor_group(&group); }
  void join(nn::workspace<Device>&, step_gradient<Device>&, bool) override {}

  void load(const std::filesystem::path& folder, std::uint64_t seed) override { load_model(*model_, folder, seed); }
  std::vector<float> read(const std::filesystem::path& folder, std::span<const owned_run>) override {
    std::vector<float> values(adapter_ ? adapter_->size() : model_->size());
    if (adapter_)
      read_adapter(folder, parameters(), values);
    else
      checkpoint::load_weights(folder / "huggingface", parameters(), values);
    return values;
  }

  void run(const leaf_round& round, step_gradient<Device>& gradient, parallel::gradient_sums<Device>& sums,
           const typename held_values<Device>::pass_function& f) override {
    round.run(f);
    if (!round.has_rows())
      sums.skip(round.number);
    else if (sums.by_leaf())
      gradient.hand_over(sums, round.number);
  }
  void end_rounds(step_gradient<Device>& gradient, parallel::gradient_sums<Device>& sums) override {
    if (!sums.by_leaf()) gradient.hand_over(sums, 0);
  }
  void step(optim::adamw<Device>& optimizer, sharded_update<Device>& update, const float* sum, double lr,
            float scale) override {
    float* const values = weights().data();
    optimizer.step(update.pieces(), values, sum, lr, scale);
    update.gather(values);
  }

 private:
  nn::causal_lm<Device>* model_;
  nn::lora<Device>* adapter_;
};

}  // namespace trainer
RLCORE_END
