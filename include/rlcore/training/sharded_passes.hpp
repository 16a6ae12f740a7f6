// Passes of a model with sharded weights (ZeRO 3); ranks without rows take part in the collectives.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <vector>

#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/gradients.hpp"
#include "rlcore/nn/model/units.hpp"
#include "rlcore/parallel/reduction/gradient_sums.hpp"
#include "rlcore/training/leaf_plan.hpp"

RLCORE_BEGIN
namespace trainer {

/// Runs the collectives of a pass without rows; calls done(unit) where a unit's gradient would be complete.
template <class Device, class Done>
void idle_pass(const nn::causal_lm<Device>& model, Done&& done) {
  const std::size_t layers = model.blocks().size();
  const bool tied = model.settings().tied();
  nn::idle_forward(*model.units(), layers, tied);
  nn::idle_backward(*model.units(), layers, tied, model.trains_tower(), done);
}

/// A round in which no leaf has more than one pass: calls f(rows) for the pass of this rank's leaf, if it has rows.
/// Gradients are sent to their owners unit by unit, so no rank ever holds a full gradient.
template <class Device, class F>
void unit_round(const nn::causal_lm<Device>& model, nn::gradients<Device>& gradient,
                parallel::gradient_sums<Device>& sums, const leaf_plan& plan, std::size_t leaf, std::size_t round,
                F&& f) {
  if (leaf == parallel::leaf_schedule::none || plan.empty(leaf))
    return idle_pass(model, [&](std::size_t unit) { sums.take_unit(round, unit, nullptr); });
  struct to_owners final : nn::unit_sink {
    parallel::gradient_sums<Device>& sums;
    std::size_t round, taken = 0;
    to_owners(parallel::gradient_sums<Device>& s, std::size_t r) : sums(s), round(r) {}
    void take(std::size_t unit, const float* values) override {
      sums.take_unit_of_device(round, unit, values);
      ++taken;
    }
  } sink(sums, round);
  const std::vector<std::size_t> ends = nn::unit_ends(model.parameters());
  gradient.by_units(ends, &sink);
  plan.for_each_pass(leaf, f);
  gradient.by_units({}, nullptr);
  if (sink.taken != ends.size())
    throw std::logic_error("rlcore: for_micro_batches: f made no backward pass, expected one");
}

}  // namespace trainer
RLCORE_END
