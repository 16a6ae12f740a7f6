// Expert parallelism: weights, gradients and moments of a rank's experts, and passes with them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/gradients.hpp"
#include "rlcore/nn/moe/expert_group.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/parallel/reduction/gradient_sums.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/train/model/sharded/gathered_layers.hpp"
#include "rlcore/train/model/sharded/sharded_update.hpp"

RLCORE_BEGIN
namespace train {

/// In a training pass each rank of world.expert() computes a part of the experts, for the rows of all these ranks. All
/// of them make the same number of passes. If the model holds only that part, the sums over ranks and the checkpoints
/// handle it (expert_shards.hpp). If it holds all experts in shards (zero 3), the gradients of experts return to the
/// leaf of their rows, and nothing else changes.
template <class Device>
class expert_passes {
 public:
  /// `gradient` is the gradient of all weights. Throws config_error if the model has no experts or fewer experts than
  /// ranks. All arguments must outlive this object. `together`: see nn::gradients::divide_experts.
  expert_passes(parallel::world& w, const nn::causal_lm<Device>& model, nn::workspace<Device>& space,
                nn::gradients<Device>& gradient, bool together)
      : model_(&model), space_(&space), gradient_(&gradient), group_(w.expert()) {
    check_partition(model.settings(), {0, 1, group_.rank(), group_.size()});
    space.experts = &group_;
    gradient_->divide_experts(model, group_, together);
  }
  expert_passes(const expert_passes&) = delete;
  expert_passes& operator=(const expert_passes&) = delete;

  /// Takes part in a pass for the rows of other ranks.
  void idle(bool recompute) {
    const ragged<std::int32_t> none;
    if (model_->settings().output == nn::model_output::logits)
      nn::forward_backward(*model_, *space_, *gradient_, none, {}, 1.0f, recompute, [](auto, auto, auto, auto) {});
    else
      nn::value_forward_backward(*model_, *space_, *gradient_, none, {}, recompute, [](auto, auto) {});
  }
  /// Completes the gradients of the leaf's rows; without a leaf they become 0.
  void end_leaf(bool has_leaf) {
    gradient_->collect_experts();
    if (!has_leaf) gradient_->zero();
  }

 private:
  const nn::causal_lm<Device>* model_;
  nn::workspace<Device>* space_;
  nn::gradients<Device>* gradient_;
  nn::expert_group_of<parallel::any_communicator> group_;
};

/// Each rank of world.expert() holds its own experts and all non-expert parameters. It receives rows from all these
/// ranks, so it has the gradients of its experts for the leaves of all of them. Ranks with the same experts sum these
/// gradients in the shards of world.place_in_experts(). Scoring passes, and a gathering of full parameters, collect the
/// experts of all ranks.
template <class Device>
class expert_shards final : public gathered_layers<Device>, public expert_squares {
 public:
  /// The parameters of this rank: first those that all ranks have, then its experts, layer after layer.
  nn::causal_lm<Device> part;

  /// `whole` is in units. Throws config_error for a model without experts or with fewer experts than ranks.
  expert_shards(nn::causal_lm<Device>& whole, parallel::world& w)
      : gathered_layers<Device>(whole, false),
        part(whole.device(), whole.settings(),
             {.tensor_rank = whole.part().tensor_rank,
              .tensor_size = whole.part().tensor_size,
              .expert_rank = w.expert().rank(),
              .expert_size = w.expert().size(),
              .stage = whole.part().stage}),
        world_(&w),
        experts_(whole.settings().num_experts),
        expert_size_(
            static_cast<std::size_t>(3 * whole.settings().hidden_size * whole.settings().moe_intermediate_size)),
        shared_(nn::unit_ends(shared_parameters()), 1),
        sparse_(sparse_units(part.settings(), nn::unit_numbers(shared_parameters()))),
        sums_(whole.device(), w, w.place_in_experts(), layout_of(w.expert().rank())),
        gather_(whole.device(), *w.place_in_experts().shards, sums_.layout()) {
    for (int r = 0; r < w.expert().size(); ++r) {
      layouts_.push_back(layout_of(r));
      counts_.push_back(static_cast<std::size_t>(nn::part_of(experts_, r, w.expert().size()).size()) * expert_size_);
    }
  }

  /// The parameters of `part` that all ranks have.
  std::span<const nn::parameter> shared_parameters() const {
    std::size_t n = 0;
    while (n < part.parameters().size() && part.parameters()[n].offset < part.shared_size()) ++n;
    return part.parameters().first(n);
  }
  parallel::gradient_sums<Device>& sums() noexcept { return sums_; }
  /// The expert values in this rank's optimizer. They follow the `before` values of the non-expert parameters.
  std::size_t shard_size() const { return sums_.shard_size(); }
  /// Where the experts' values lie in the optimizer and in this rank's weights, behind `before` other values.
  std::vector<optim::adamw_piece> pieces(std::size_t before) const {
    return pieces_of(sums_.layout(), sums_.shard_rank(), before, part.shared_size());
  }

  /// All parameters of this rank. Throws std::logic_error while weights are gathered.
  resident_weights<Device> resident() {
    if (this->gathered()) throw std::logic_error("rlcore: resident: weights are gathered");
    return {part.weights(), part.parameters()};
  }

  /// Hands over the gradients of a round's leaves: expert gradients to sums(), the rest to `shared`. `has_leaf` is true
  /// if this rank has a leaf in the round. The gradients are 0 afterwards.
  void take(std::size_t round, nn::gradients<Device>& g, bool has_leaf, parallel::gradient_sums<Device>& shared) {
    const float* gradient = collect_gradients(g);
    has_leaf ? shared.copy(round, {&gradient, 1}) : shared.skip(round);
    sums_.copy(round, sources_);
    g.zero();
  }
  /// The same for ranks that sum the gradients of all their leaves; they are read until the sums are finished.
  void lend_sums(nn::gradients<Device>& g, parallel::gradient_sums<Device>& shared) {
    shared.lend_sum(collect_gradients(g));
    sums_.lend_sum(sources_.back());  // of all ranks' rows together
    g.zero();                         // the values stay until g is read or written again
  }
  /// Prepares the squares of the experts' gradients for the norm. This rank holds `shard` of them.
  expert_squares& squares_of(const float* shard) {
    parallel::any_communicator& c = world_->expert();
    const std::vector<double> local =
        gathered_squares(part.device(), sums_.layout(), sums_.shard_rank(), shard, gather_.ranks());
    std::vector<std::size_t> counts;
    for (const parallel::shard_layout& l : layouts_) {
      counts.push_back(0);
      for (std::size_t r = 0; r < l.ranks(); ++r) counts.back() += blocks_of_shard(l, r);
    }
    squares_.resize(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
    c.all_gather_v(std::span<const double>(local), std::span<double>(squares_), std::span<const std::size_t>(counts));
    in_order_.clear();
    for (std::size_t r = 0, at = 0; r < counts.size(); at += counts[r++])
      in_order_.emplace_back(layouts_[r], std::span<const double>(squares_).subspan(at, counts[r]));
    return *this;
  }
  /// Appends nothing for a unit without experts.
  void append_unit(std::size_t u, std::vector<double>& squares) override {
    const std::int64_t layer = sparse_layer(u);
    if (layer < 0) return;
    for (squares_in_order& of_rank : in_order_) of_rank.append_unit(static_cast<std::size_t>(layer), squares);
  }
  /// Adds the layers in their order.
  void add_all(double& total) override {
    std::vector<double> squares;
    for (std::size_t l = 0; l < sums_.layout().units(); ++l)
      for (squares_in_order& of_rank : in_order_) of_rank.append_unit(l, squares);
    for (const double x : squares) total += x;
  }
  /// Takes the step of the experts, after `optimizer` has taken it for the `before` values of the non-expert
  /// parameters. This rank holds `shard` of the gradient.
  void step(optim::adamw<Device>& optimizer, std::size_t before, const float* shard, double lr, float scale) {
    float* const weights = part.weights().data();
    optimizer.step_further(pieces(before), weights, {shard, before}, lr, scale);
    gather_.every_unit(weights + part.shared_size());
  }

 private:
  parallel::shard_layout layout_of(int expert_rank) const {
    const auto experts = static_cast<std::size_t>(nn::part_of(experts_, expert_rank, world_->expert().size()).size());
    std::vector<std::size_t> ends, begins;
    const auto layers = static_cast<std::size_t>(std::ranges::count_if(sparse_, [](std::int64_t n) { return n >= 0; }));
    for (std::size_t n = 0; n < layers * experts; ++n) begins.push_back(n * expert_size_);
    for (std::size_t l = 1; l <= layers; ++l) ends.push_back(l * experts * expert_size_);
    return {std::move(ends), world_->place().expert_shard_size(), begins};
  }
  /// For each unit the number of its layer among those with experts, or -1.
  static std::vector<std::int64_t> sparse_units(const nn::config& c, std::span<const std::size_t> units) {
    std::vector<std::int64_t> sparse;
    std::int64_t n = 0;
    for (const std::size_t u : units) {
      const auto layer = static_cast<std::int64_t>(u) - 1;
      sparse.push_back(layer >= 0 && layer < c.num_hidden_layers && c.sparse(layer) ? n++ : -1);
    }
    return sparse;
  }
  /// The sparse layer of unit u, or -1.
  std::int64_t sparse_layer(std::size_t u) const { return sparse_[u]; }
  const float* collect_gradients(nn::gradients<Device>& g) {
    g.collect_experts();
    const float* gradient = g.data();
    sources_.clear();
    for (int s = 0; s < world_->expert().size(); ++s)
      if (s == world_->expert().rank() || sums_.layout().size() == 0)
        sources_.push_back(gradient + part.shared_size());
      else if (!g.experts_together())
        sources_.push_back(g.experts_of_rank(s));
    return gradient;
  }

  parallel::any_communicator& ranks() override { return world_->expert(); }
  void collect(std::size_t u, float* unit) override {
    const parallel::value_range shared = shared_.unit(u);
    const float* from = std::as_const(part).weights().data();
    this->copy(unit, from + shared.first, shared.size());
    const std::int64_t layer = sparse_layer(u);
    if (layer < 0) return;
    float* const experts = unit + shared.size();
    const auto [at, size] = own_experts();
    this->copy(experts + at, from + part.shared_size() + static_cast<std::size_t>(layer) * size, size);
    parallel::gather_in_place(part.device(), world_->expert(), experts, std::span<const std::size_t>(counts_), stage_);
  }
  void keep(std::size_t u, const float* unit) override {
    const parallel::value_range shared = shared_.unit(u);
    float* to = part.weights().data();
    this->copy(to + shared.first, unit, shared.size());
    const std::int64_t layer = sparse_layer(u);
    if (layer < 0) return;
    const auto [at, size] = own_experts();
    this->copy(to + part.shared_size() + static_cast<std::size_t>(layer) * size, unit + shared.size() + at, size);
  }
  /// This rank's experts within a layer: first value and count.
  std::pair<std::size_t, std::size_t> own_experts() const {
    const auto rank = static_cast<std::size_t>(world_->expert().rank());
    return {std::accumulate(counts_.begin(), counts_.begin() + static_cast<std::ptrdiff_t>(rank), std::size_t{0}),
            counts_[rank]};
  }

  parallel::world* world_;
  std::int64_t experts_;
  std::size_t expert_size_;
  parallel::shard_layout shared_;     // units of the non-expert parameters
  std::vector<std::int64_t> sparse_;  // of each: number of the layer among those with experts, or -1
  parallel::gradient_sums<Device> sums_;
  shard_gather<Device> gather_;
  std::vector<parallel::shard_layout> layouts_;  // of the experts of each rank
  std::vector<std::size_t> counts_;              // values per layer of each rank
  std::vector<double> squares_;
  std::vector<squares_in_order> in_order_;
  std::vector<const float*> sources_;
  std::vector<float> stage_;
};

}  // namespace train

RLCORE_END
