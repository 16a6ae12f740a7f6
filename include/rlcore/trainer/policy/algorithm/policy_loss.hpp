// Policy loss concept: the loss of a micro-batch and its token selection.
#pragma once

#include <concepts>
#include <memory>
#include <span>

#include "rlcore/core/random.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/tensor/view.hpp"
#include "rlcore/trainer/policy/algorithm/loss_on_device.hpp"
#include "rlcore/trainer/policy/algorithm/policy_report.hpp"
#include "rlcore/trainer/policy/algorithm/policy_rows.hpp"
#include "rlcore/trainer/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace trainer {

/// Requirements of an algorithm on its loss:
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

/// A policy_loss or a policy_algorithm that also runs on a device: on_device(device, step, rows) gives the loss of one
/// optimizer step there, of at most `rows` rows, or null if a part of it is host-only. Without it the
/// policy loop fetches log-probs, calls loss() and uploads the slopes.
template <class L, class Device>
concept loss_of_device = requires(const L l, Device& device, const global_counts& step, extent_t rows) {
  { l.on_device(device, step, rows) } -> std::same_as<std::unique_ptr<loss_on_device>>;
};

/// Whether the run may leave the log-probs of the reference in the memory of the device that computes them, and
/// trajectory::ref_logp empty: L says so by reference_stays(), if it reads them in loss() and on_device() alone.
template <class L>
bool reference_may_stay(const L& l) {
  if constexpr (requires { l.reference_stays(); })
    return l.reference_stays();
  else
    return false;
}

}  // namespace trainer
RLCORE_END
