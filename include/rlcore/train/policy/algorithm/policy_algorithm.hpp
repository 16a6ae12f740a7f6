// What the policy loop asks of an algorithm: the rows of a micro-batch, its loss and gradient, the report of a step.
//
// Policy algorithm concept: advantages of a step, and the loss of a micro-batch.
//
//   struct my_algorithm {
//     field reads() const;                                      // beyond logp, old_logp and advantage: which fields
//     void advantages(std::span<trajectory> batch, std::int64_t samples, random_key key) const;
//     policy_report loss(const policy_rows& rows, const global_counts& step,
//                        std::span<float> dlogp, std::span<float> dentropy) const;
//   };
//
// Seldom written by hand: any_algorithm makes one of an advantage, an objective and an aggregation.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>

#include "rlcore/core/random.hpp"
#include "rlcore/objective/advantage/estimator.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/simd/exact_sum.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/view.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Sums of one or more micro-batches of a policy loss; join with +=.
struct policy_report {
  exact_sum policy, kl, entropy;             ///< aggregated, without coefficients
  exact_sum clipped, clipped_lower, ppo_kl;  ///< sums over tokens
  exact_sum kl_total, entropy_total;         ///< sums over tokens
  double kl_coefficient = 0, entropy_coefficient = 0;
  std::int64_t tokens = 0, sequences = 0, rows = 0;

  double policy_loss() const noexcept { return policy.value(); }
  double kl_loss() const noexcept { return kl.value(); }
  double entropy_value() const noexcept { return entropy.value(); }
  double loss() const noexcept {
    return policy_loss() + kl_coefficient * kl_loss() - entropy_coefficient * entropy_value();
  }
  double clip_fraction() const noexcept { return mean(clipped); }
  double clip_fraction_lower() const noexcept { return mean(clipped_lower); }
  double ppo_kl_mean() const noexcept { return mean(ppo_kl); }
  double kl_mean() const noexcept { return mean(kl_total); }
  double entropy_mean() const noexcept { return mean(entropy_total); }

  /// Joins the sums of another part of the step.
  policy_report& operator+=(const policy_report& o) noexcept {
    policy += o.policy, kl += o.kl, entropy += o.entropy;
    clipped += o.clipped, clipped_lower += o.clipped_lower, ppo_kl += o.ppo_kl;
    kl_total += o.kl_total, entropy_total += o.entropy_total;
    if (o.rows > 0) kl_coefficient = o.kl_coefficient, entropy_coefficient = o.entropy_coefficient;
    tokens += o.tokens, sequences += o.sequences, rows += o.rows;
    return *this;
  }

 private:
  double mean(const exact_sum& s) const noexcept { return tokens > 0 ? s.value() / static_cast<double>(tokens) : 0.0; }
};

/// Token fields are flat, row after row; `advantage` has one value per row, and if `token_advantage` is not empty, its
/// one value per token is meant instead. ref_logp may be empty without KL, entropy without an entropy term, `selected`
/// where nothing was selected.
struct policy_rows {
  std::span<const std::int32_t> offsets;  ///< rows + 1, starting at 0
  std::span<const float> logp, old_logp, ref_logp{}, advantage, entropy{}, token_advantage{}, selected{};
};

/// The span as a view.
template <class T>
vector_view<T> flat_view(std::span<T> s) {
  return vector_view<T>(s.data(), {static_cast<extent_t>(s.size())});
}

/// The rows as evaluate() takes them. field::rollout_logp is old_logp: both were recorded while sampling.
inline token_batch<float> batch_of(const policy_rows& rows) {
  token_batch<float> batch{
      .logp = flat_view(rows.logp), .old_logp = flat_view(rows.old_logp), .rollout_logp = flat_view(rows.old_logp)};
  if (rows.token_advantage.empty())
    batch.advantage = per_row(flat_view(rows.advantage));
  else
    batch.advantage = flat_view(rows.token_advantage);
  const bool no_tokens = rows.logp.empty();  // then empty fields are complete
  if (!rows.ref_logp.empty() || no_tokens) batch.ref_logp = flat_view(rows.ref_logp);
  if (!rows.entropy.empty() || no_tokens) batch.entropy = flat_view(rows.entropy);
  if (!rows.selected.empty() || no_tokens) batch.selected = flat_view(rows.selected);
  batch.offsets = flat_view(rows.offsets);
  return batch;
}

/// Where the slopes of these rows go; an empty dentropy is not written.
inline token_gradients<float> gradients_of(const policy_rows& rows, std::span<float> dlogp, std::span<float> dentropy) {
  token_gradients<float> gradients{.logp = flat_view(dlogp)};
  if (!dentropy.empty() || rows.logp.empty()) gradients.entropy = flat_view(dentropy);
  return gradients;
}

RLCORE_ALGORITHM_END

namespace train {

/// Result of policy_loss::on_device(): the loss of the micro-batches of one optimizer step, computed in device memory.
/// The host reads none of its inputs.
class loss_on_device {
 public:
  loss_on_device() = default;
  loss_on_device(const loss_on_device&) = delete;
  loss_on_device& operator=(const loss_on_device&) = delete;
  virtual ~loss_on_device() = default;

  /// Whether no token without an advantage has a slope: the backward then leaves such tokens out.
  virtual bool needs_advantage() const { return false; }
  /// As policy_loss::loss of one micro-batch, without its report. Spans are of addresses on the device, all but
  /// `rows.offsets`, which the host has.
  virtual void add(const policy_rows& rows, std::span<float> dlogp, std::span<float> dentropy) = 0;
  /// The report of all micro-batches, fetched in one transfer for each sum of the loss.
  virtual policy_report report() = 0;
};

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

}  // namespace train

RLCORE_END
