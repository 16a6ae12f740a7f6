// Policy algorithm concept: advantages of a step, and the loss of a micro-batch.
//
//   struct my_algorithm {
//     field reads() const;                                      // beyond logp, old_logp and advantage: which fields
//     void advantages(std::span<trajectory> batch, std::int64_t samples, random_key key) const;
//     policy_report loss(const policy_rows& rows, const global_counts& step,
//                        std::span<float> dlogp, std::span<float> dentropy) const;
//   };
//
// Seldom written by hand: composed_algorithm makes one of an advantage, an objective and an aggregation.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include "rlcore/core/random.hpp"
#include "rlcore/objective/advantage/estimator.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/trainer/policy/algorithm/policy_report.hpp"
#include "rlcore/trainer/policy/algorithm/policy_rows.hpp"
#include "rlcore/trainer/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace trainer {

/// Requirements of the policy loop on an algorithm:
///   reads       fields that the loss needs besides logp, old_logp and advantage: ref_logp makes the run keep a
///               reference model, entropy hands over the entropies and a place for the slope by them
///   advantages  writes trajectory::advantage, or trajectory::token_advantage of every trajectory, and what else the
///               loss wants decided over the whole step (trajectory::selected); the `samples` responses to one prompt
///               are neighbours, and their rewards are final; `key` is the step's
///   loss        writes dL / dlogp (and dL / dentropy if that is not empty) of one micro-batch; `step` counts the whole
///               optimizer step, so that the reports and gradients of its micro-batches add up
/// and, if it has one, inputs(): the advantage_input that advantages() reads; on_device(), see loss_of_device; and
/// reference_stays(), see reference_may_stay().
template <class A>
concept policy_algorithm = requires(const A a, std::span<trajectory> batch, const policy_rows& rows,
                                    const global_counts& step, std::span<float> slope) {
  { a.reads() } -> std::same_as<field>;
  a.advantages(batch, std::int64_t{}, random_key{});
  { a.loss(rows, step, slope, slope) } -> std::same_as<policy_report>;
};

}  // namespace trainer
RLCORE_END
