// Every rank holds its own experts and all other weights (expert parallelism, ZeRO 0 to 2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/training/expert_passes.hpp"
#include "rlcore/training/sharded/expert_shards.hpp"
#include "rlcore/training/strategy/held_values.hpp"

RLCORE_BEGIN
namespace trainer {

/// The gradients of experts are sums over the rows of all ranks, added up among the ranks with the same experts.
template <class Device>
class expert_values final : public held_values<Device> {
 public:
  /// `model` is in units; both have to outlive this.
  expert_values(nn::causal_lm<Device>& model, parallel::world& w) : model_(&model), world_(&w), experts_(model, w) {}

  const nn::causal_lm<Device>& passing() const override { return experts_.part; }
  std::span<const nn::parameter> parameters() const override { return experts_.part.parameters(); }
  std::span<const nn::parameter> shared_parameters() const override { return experts_.shared_parameters(); }
  buffer<float, Device>& weights() override { return experts_.part.weights(); }
  /// By its place among the parameters.
  const float* place_of(const owned_run& run) override {
    return std::as_const(experts_.part).weights().data() + run.weights;
  }
  gathered_layers<Device>* gathered() override { return &experts_; }
  std::size_t further_size() const override { return experts_.shard_size(); }
  std::vector<optim::adamw_piece> further_pieces(std::size_t before) const override { return experts_.pieces(before); }
  void set_tensor_group(nn::tensor_group& group) override {
    model_->set_tensor_group(&group);
    experts_.part.set_tensor_group(&group);
  }
  /// Gradients of other ranks' experts have memory only where leaves are taken one by one.
  void join(nn::workspace<Device>& space, step_gradient<Device>& gradient, bool by_leaf) override {
    passes_.emplace(*world_, experts_.part, space, gradient.of_weights(), !by_leaf);
  }

  void load(const std::filesystem::path& folder, std::uint64_t seed) override { experts_.load(folder, seed); }
  std::vector<float> read(const std::filesystem::path& folder, std::span<const owned_run>) override {
    std::vector<float> values(experts_.part.size());
    read_weights(folder, model_->parameters(), experts_.runs(), values);
    return values;
  }

  void begin(const std::vector<bool>& present) override { experts_.sums().begin(present); }
  /// Ranks whose leaf has fewer passes compute their experts for the rows of others.
  void run(const leaf_round& round, step_gradient<Device>& gradient, parallel::gradient_sums<Device>& sums,
           const typename held_values<Device>::pass_function& f) override {
    const std::size_t most = round.plan.most_passes(sums.schedule(), round.number);
    for (std::size_t passes = round.run(f); passes < most; ++passes) passes_->idle(round.recompute);
    if (sums.by_leaf()) experts_.take(round.number, gradient.of_weights(), round.has_rows(), sums);
  }
  void end_rounds(step_gradient<Device>& gradient, parallel::gradient_sums<Device>& sums) override {
    if (!sums.by_leaf()) experts_.take_sums(gradient.of_weights(), sums);
  }
  double norm(sharded_update<Device>& update, const float* sum) override {
    expert_sum_ = experts_.sums().finish();
    return update.norm(sum, &experts_.squares_of(expert_sum_));
  }
  void step(optim::adamw<Device>& optimizer, sharded_update<Device>& update, const float* sum, double lr,
            float scale) override {
    float* const values = weights().data();
    optimizer.step(update.pieces(), values, sum, lr, scale);
    update.gather(values);
    experts_.step(optimizer, update.shard_size(), expert_sum_, lr, scale);
  }

 private:
  nn::causal_lm<Device>* model_;
  parallel::world* world_;
  expert_shards<Device> experts_;
  std::optional<expert_passes<Device>> passes_;
  const float* expert_sum_ = nullptr;
};

}  // namespace trainer
RLCORE_END
