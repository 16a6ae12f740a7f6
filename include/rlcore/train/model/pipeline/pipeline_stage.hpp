// One stage of a pipeline: runs the schedule of an optimizer step, and shares a tied embedding with the other end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "rlcore/nn/model/backbone.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/parallel/pipeline_link.hpp"
#include "rlcore/parallel/pipeline/schedule.hpp"
#include "rlcore/parallel/reduction/gradient_sums.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/tensor/view.hpp"
#include "rlcore/train/model/pipeline/tied_embedding.hpp"
#include "rlcore/train/model/strategy/step_gradient.hpp"
#include "rlcore/train/model/strategy/values.hpp"

RLCORE_BEGIN
namespace train {

/// The way of a rank's passes to the other stages.
using stage_link = nn::pipeline_link_of<parallel::any_communicator>;
/// The first pass reaches the last stage after one of each stage before it: a message may take as many timeouts.
inline int patience_of_stage(const parallel::world& w) { return 1 + w.place().pipeline_size; }

/// Micro-batches are the passes of the schedule, in the order of the leaf plan. Backwards run in the order of forwards,
/// so each parameter's gradient is summed over its rows in the order of one rank: no bit depends on the stages.
template <class Device>
class pipeline_stage {
 public:
  /// `model` is this stage's part, of which this rank holds `values`; all must outlive this object. Without
  /// `trains_embedding` (LoRA) both ends of the pipeline keep a tied embedding as it is.
  pipeline_stage(nn::causal_lm<Device>& model, held_values<Device>& values, parallel::world& w, bool trains_embedding)
      : model_(&values.passing()),
        values_(&values),
        link_(w.forwards(), w.backwards(), patience_of_stage(w)),
        tied_(model, w, trains_embedding) {
    values.set_pipeline(link_);
  }
  pipeline_stage(const pipeline_stage&) = delete;
  pipeline_stage& operator=(const pipeline_stage&) = delete;

  bool last() const { return link_.last(); }
  /// Passes have the groups of `space`.
  void join(const nn::workspace<Device>& space) { like_ = &space; }

  /// A forward whose backward comes later; copies the sequences. Not in the last stage.
  void forward(const nn::input& sequences, std::span<const std::int32_t> rows, bool recompute) {
    if (!running_) throw std::logic_error("rlcore: a stage of a pipeline runs passes in for_micro_batches() alone");
    kept_pass& p = free_pass();
    p.number = running_->pass;
    p.tokens = sequences.tokens;
    p.rows.assign(rows.begin(), rows.end());
    p.routed_experts.assign(sequences.routed_experts.begin(), sequences.routed_experts.end());
    nn::input kept = p.tokens;
    kept.routed_experts = p.routed_experts;
    p.body.emplace(*model_, p.space, kept, std::span<const std::int32_t>(p.rows), recompute);
  }

  /// Runs the passes of all rounds by the schedule of this stage: f(rows) makes a forward, in the last stage also its
  /// backward. Gradients are summed leaf by leaf.
  void run(std::span<const leaf_round> rounds, step_gradient<Device>& gradient, parallel::gradient_sums<Device>& sums,
           const std::function<void(std::span<const std::uint32_t>)>& f) {
    const std::vector<planned> passes = plan(rounds, sums.schedule());
    const parallel::pipeline_shape shape{.stages = link_.stages(), .passes = static_cast<int>(passes.size())};
    std::size_t next_round = 0;
    const auto end_rounds_before = [&](std::size_t round) {
      for (; next_round < round; ++next_round) end_leaf(rounds[next_round], gradient, sums);
    };
    if (model_->part().expert_size == 1) gradient.borrow(sums);
    for (const parallel::pipeline_action& a : parallel::stage_schedule(shape, link_.stage())) {
      const planned& p = passes[static_cast<std::size_t>(a.pass)];
      if (a.forward) {
        running_ = a;
        if (!p.idle)
          f(p.rows);
        else if (last())
          values_->idle(rounds[p.round].recompute);
        else
          forward(ragged<std::int32_t>(), {}, rounds[p.round].recompute);
        running_.reset();
      }
      if (!a.forward && !last()) backward(a.pass, gradient);
      if (a.forward) continue;
      if (p.ends_leaf) end_rounds_before(p.round + 1);
      if (tied_) tied_.end_pass(sums);
    }
    end_rounds_before(rounds.size());
  }
  /// After run(): ends the sums of this rank.
  void end_rounds(step_gradient<Device>& gradient, parallel::gradient_sums<Device>& sums) {
    if (!tied_) return values_->end_rounds(gradient, sums);
    if (!sums.by_leaf()) tied_.take(0, gradient, sums);
    tied_.complete(sums);
  }
  /// Frees the memory of passes until the next step.
  void release() { kept_.clear(); }
  /// After an update: a copy of the tied embedding gets the values of the last stage.
  void copy_embedding() { tied_.copy_weights(); }

 private:
  /// A pass of this rank, or one without rows beside those of other ranks.
  struct planned {
    std::span<const std::uint32_t> rows{};
    std::size_t round = 0;
    bool idle = false, ends_leaf = false;
  };
  std::vector<planned> plan(std::span<const leaf_round> rounds, const parallel::leaf_schedule& schedule) const {
    std::vector<planned> passes;
    for (std::size_t n = 0; n < rounds.size(); ++n) {
      std::size_t made = rounds[n].run([&](std::span<const std::uint32_t> rows) { passes.push_back({rows, n}); });
      const std::size_t most = values_->passes(rounds[n], schedule);
      for (; made < most; ++made) passes.push_back({{}, n, true});
      if (most > 0) passes.back().ends_leaf = true;
    }
    return passes;
  }
  void end_leaf(const leaf_round& round, step_gradient<Device>& gradient, parallel::gradient_sums<Device>& sums) {
    if (!tied_) return values_->end_leaf(round, gradient, sums);
    if (!round.has_rows())
      tied_.skip(round.number, sums);
    else if (sums.by_leaf())
      tied_.take(round.number, gradient, sums);
  }
  /// A pass between its forward and its backward.
  struct kept_pass {
    kept_pass(Device& device, std::size_t logits_bytes) : space(device, logits_bytes) {}
    int number = -1;
    nn::workspace<Device> space;
    ragged<std::int32_t> tokens;
    std::vector<std::int32_t> rows;
    std::vector<std::int16_t> routed_experts;
    std::optional<nn::backbone<Device>> body;
  };

  kept_pass& free_pass() {
    for (const auto& p : kept_)
      if (!p->body) return *p;
    kept_pass& p = *kept_.emplace_back(std::make_unique<kept_pass>(model_->device(), like_->logits_bytes()));
    p.space.context = like_->context, p.space.experts = like_->experts;
    return p;
  }
  void backward(int number, step_gradient<Device>& gradient) {
    const auto p = std::ranges::find_if(kept_, [&](const auto& k) { return k->body && k->number == number; });
    if (p == kept_.end()) throw std::logic_error("rlcore: for_micro_batches: f made no forward pass, expected one");
    gradient.with([&](auto& g) { (*p)->body->backward_of_stage(g); });
    (*p)->body.reset();
  }

  const nn::causal_lm<Device>* model_;
  held_values<Device>* values_;
  stage_link link_;
  tied_embedding<Device> tied_;
  const nn::workspace<Device>* like_ = nullptr;
  std::optional<parallel::pipeline_action> running_;
  std::vector<std::unique_ptr<kept_pass>> kept_;
};

}  // namespace train
RLCORE_END
