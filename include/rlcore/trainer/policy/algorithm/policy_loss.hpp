// The loss of a micro-batch, and the choice of tokens that it wants made before.
#pragma once

#include <concepts>
#include <span>

#include "rlcore/core/random.hpp"
#include "rlcore/objective/aggregation/global_counts.hpp"
#include "rlcore/objective/piece/field.hpp"
#include "rlcore/trainer/policy/algorithm/policy_report.hpp"
#include "rlcore/trainer/policy/algorithm/policy_rows.hpp"
#include "rlcore/trainer/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace trainer {

/// What an algorithm asks of its loss:
///   reads     fields needed besides logp, old_logp and advantage: ref_logp makes the run keep a reference model,
///             entropy hands over the entropies and a place for the slope by them
///   select    sets trajectory::selected for the whole step, if the loss chooses tokens; `key` is the step's
///   loss      writes dL / dlogp (and dL / dentropy if that is not empty) of one micro-batch; `step` counts the whole
///             optimizer step, so that the reports and gradients of its micro-batches add up
template <class L>
concept policy_loss = requires(const L l, std::span<trajectory> batch, const policy_rows& rows,
                               const global_counts& step, std::span<float> slope) {
  { l.reads() } -> std::same_as<field>;
  l.select(batch, random_key{});
  { l.loss(rows, step, slope, slope) } -> std::same_as<policy_report>;
};

}  // namespace trainer
RLCORE_END
