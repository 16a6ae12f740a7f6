// The actor update: mini-batches, micro-batches (in device memory), global denominators, one optimizer step per mini-
// batch.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/objective/loop/device_batch.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/optim/schedule.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/tensor/tensor.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/policy/actor.hpp"
#include "rlcore/train/policy/algorithm/any_algorithm.hpp"
#include "rlcore/train/policy/algorithm/policy_algorithm.hpp"
#include "rlcore/train/policy/trajectory/packed_trajectories.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace train {

/// The addresses of a vector of a device, which the host must not read through.
template <class T, class Device>
std::span<T> span_of(const device_view<T, 1, Device>& x) noexcept {
  return {x.data, static_cast<std::size_t>(x.shape[0])};
}
/// The same of a tensor.
template <class T, class Device>
std::span<const T> span_of(const tensor<T, 1, Device>& x) noexcept {
  return {x.data(), x.size()};
}

/// Consecutive numbers in the memory of a device.
struct device_run {
  const float* data = nullptr;
  extent_t count = 0;
};

/// Fields of rows: host fields are uploaded together, device fields are joined on the device.
template <class Device>
class rows_on_device {
 public:
  /// old_logp, advantages and what else is in `reads` of the fields of `host`, whose offsets must outlive this. The
  /// runs of `ref`, if any, are ref_logp and must outlive it too.
  rows_on_device(Device& device, const policy_rows& host, field reads, std::span<const device_run> ref = {}) {
    std::vector<float> all;
    std::size_t first[std::size(fields)];
    for (std::size_t f = 0; f < std::size(fields); ++f) {
      first[f] = all.size();
      const std::span<const float> x = host.*fields[f].second;
      if (contains(reads | field::old_logp | field::advantage, fields[f].first))
        all.insert(all.end(), x.begin(), x.end());
    }
    std::size_t joined = 0;
    if (ref.size() > 1 && contains(reads, field::ref_logp))
      for (const device_run& r : ref) joined += static_cast<std::size_t>(r.count);
    memory_ = buffer<float, Device>(device, all.size() + joined);
    if (!all.empty()) device.upload(memory_.data(), all.data(), all.size() * sizeof(float));
    rows_.offsets = host.offsets;
    for (std::size_t f = 0; f < std::size(fields); ++f) {
      const std::size_t last = f + 1 < std::size(fields) ? first[f + 1] : all.size();
      rows_.*fields[f].second = {memory_.data() + first[f], last - first[f]};
    }
    if (!ref.empty() && contains(reads, field::ref_logp)) show_reference(device, ref, memory_.data() + all.size());
  }
  /// Addresses; the host must not read through them.
  const policy_rows& rows() const noexcept { return rows_; }

 private:
  static constexpr std::pair<field, std::span<const float> policy_rows::*> fields[] = {
      {field::old_logp, &policy_rows::old_logp},
      {field::ref_logp, &policy_rows::ref_logp},
      {field::advantage, &policy_rows::advantage},
      {field::advantage, &policy_rows::token_advantage},
      {field::selected, &policy_rows::selected}};

  /// One run is read where it lies; several are joined at `room`.
  void show_reference(Device& device, std::span<const device_run> ref, float* room) {
    if (ref.size() == 1) {
      rows_.ref_logp = {ref[0].data, static_cast<std::size_t>(ref[0].count)};
      return;
    }
    float* to = room;
    for (const device_run& r : ref)
      device.run(op::copy_rows{.y = to, .y_row = r.count, .x = r.data, .x_row = r.count, .count = 1, .width = r.count}),
          to += r.count;
    rows_.ref_logp = {room, to};
  }

  policy_rows rows_;
  buffer<float, Device> memory_;
};

/// How a step's trajectories are cut into optimizer steps (mini) and forward passes (micro; no result depends on it).
struct update_plan {
  std::int64_t mini_trajectories = 0, micro_trajectories = 0, micro_tokens = 0, epochs = 1;
  bool shuffle = false;  ///< new order of the trajectories in each epoch (verl's actor.shuffle)
  float temperature = 1;
  std::vector<double> lr = {0};  ///< of each update; the last of them goes on
  double grad_clip = 0;
  bool keep_routes = false;  ///< tokens go to the experts that the policy before the first update chose (verl's R2)
  std::function<void()> pause = {};  ///< called before each micro-batch; no result depends on it

  /// The learning rate of update number `update` of the step.
  double rate(std::size_t update) const { return lr[std::min(update, lr.size() - 1)]; }
};

/// The learning rates of the `updates` of step number `step`: one for all, or one for each (rlcore.lr_per_update).
std::vector<double> update_rates(double highest, const optim::schedule& schedule, std::int64_t step,
                                 std::int64_t updates, bool for_each_update);

/// Fisher-Yates, addressed by the epoch.
void shuffle_rows(std::vector<const trajectory*>& rows, random_key key, std::int64_t epoch);

/// Inputs of a micro-batch's loss besides the outputs of the pass, packed row after row.
class micro_fields {
 public:
  /// Takes the fields of these rows; log-probs of the reference that stay on a device lie in `kept_ref`. With `routes`
  /// tokens go to these experts, one entry for each of `mini`.
  void assign(std::span<const trajectory* const> mini, std::span<const std::uint32_t> rows,
              const data::prompt_dataset* prompts, const float* kept_ref,
              std::span<const std::vector<std::int16_t>> routes = {});
  /// The rows, without the outputs of the pass.
  policy_rows rows() const;
  /// Log-probs of the reference that are on a device, in the order of the rows.
  std::span<const device_run> kept() const noexcept { return kept_; }
  /// Fetches them, for a loss on the host.
  template <class Device>
  void fetch_kept(Device& device) {
    for (const device_run& r : std::exchange(kept_, {})) {
      const std::size_t before = ref_logp_.size(), n = static_cast<std::size_t>(r.count);
      ref_logp_.resize(before + n);
      device.download(ref_logp_.data() + before, r.data, n * sizeof(float));
    }
  }
  /// The advantage of every target.
  std::vector<float> advantages() const;
  packed_trajectories packed;

 private:
  /// Rows that follow each other on the device make one run.
  void append_run(const device_run& r);
  std::vector<float> old_logp_, ref_logp_, advantage_, token_advantage_, selected_;
  std::vector<device_run> kept_;
};

/// The experts that the policy chooses now for the tokens of each trajectory of `mini`; none for those of other ranks.
/// micro_fields::assign() takes them for an update of `mini`.
template <class Device>
std::vector<std::vector<std::int16_t>> chosen_experts(actor<Device>& a, std::span<const trajectory* const> mini,
                                                      const update_plan& plan) {
  std::vector<std::vector<std::int16_t>> routes(mini.size());
  micro_fields fields;
  const auto tokens_of = [&](std::uint32_t i) { return std::ssize(mini[i]->tokens); };
  const auto images_of = [&](std::uint32_t i) { return grids_of(*mini[i], a.prompts); };
  a.for_passes({.rows = mini.size(), .max_rows = plan.micro_trajectories, .max_tokens = plan.micro_tokens}, tokens_of,
               images_of, [&](std::span<const std::uint32_t> mine) {
                 if (plan.pause) plan.pause();
                 fields.assign(mini, mine, a.prompts, a.kept_ref.data());
                 const std::vector<std::int16_t> ids = a.chosen_experts(fields.packed.policy_input());
                 const std::size_t token_choices = ids.size() / fields.packed.tokens.values.size();
                 auto from = ids.begin();
                 for (const std::uint32_t i : mine) {
                   const auto count = static_cast<std::ptrdiff_t>((mini[i]->tokens.size() - 1) * token_choices);
                   routes[i].assign(from, from + count), from += count;
                 }
               });
  return routes;
}

/// Adds the gradient of the loss over `mini` to a.gradient(). The denominators are counted over all of `mini` before
/// its first backward pass, so the result does not depend on the micro-batches or their sizes. Each rank adds its own
/// part; all return the report over all ranks. `routes`: as of micro_fields::assign().
template <class Device>
policy_report accumulate_gradient(actor<Device>& a, const any_algorithm& algorithm,
                                  std::span<const trajectory* const> mini, const update_plan& plan,
                                  std::span<const std::vector<std::int16_t>> routes = {}) {
  global_counts counts;
  for (const trajectory* t : mini) counts.add_row(t->policy_length());
  const bool with_entropy = contains(algorithm.reads(), field::entropy);  // else it is neither read nor reported
  std::unique_ptr<loss_on_device> on_device;                              // null: on the host
  if constexpr (std::derived_from<Device, any_device>)
    if (loss_stays_on_device(a)) on_device = algorithm.on_device(a.model.device(), counts, counts.rows());
  micro_fields fields;
  policy_report report;
  const auto tokens_of = [&](std::uint32_t i) { return std::ssize(mini[i]->tokens); };
  const auto add = [&](std::span<const std::uint32_t> mine) {
    if (plan.pause) plan.pause();
    fields.assign(mini, mine, a.prompts, a.kept_ref.data(), routes);
    if (!on_device) fields.fetch_kept(a.model.device());
    const packed_trajectories& packed = fields.packed;
    const auto slopes = [&](std::span<const float> logp, std::span<const float> entropy, std::span<float> dlogp,
                            std::span<float> dentropy) {
      policy_rows rows = fields.rows();
      rows.logp = logp;
      if (with_entropy) rows.entropy = entropy;
      report += algorithm.loss(rows, counts, dlogp, with_entropy ? dentropy : std::span<float>());
    };
    const auto stays = [&](auto logp, auto entropy, auto dlogp, auto dentropy) {
      const rows_on_device<Device> on_this(a.model.device(), fields.rows(), algorithm.reads(), fields.kept());
      policy_rows rows = on_this.rows();
      rows.logp = span_of(logp);
      if (with_entropy) rows.entropy = span_of(entropy);
      on_device->add(rows, span_of(dlogp), with_entropy ? span_of(dentropy) : std::span<float>());
    };
    if constexpr (!Device::host_readable)
      if (on_device) {
        const std::vector<float> needed = on_device->needs_advantage() ? fields.advantages() : std::vector<float>();
        return a.forward_backward(packed.policy_input(), packed.targets, plan.temperature,
                                  nn::slopes_on_device{stays, std::span(needed)});
      }
    a.forward_backward(packed.policy_input(), packed.targets, plan.temperature, slopes);
  };
  const auto images_of = [&](std::uint32_t i) { return grids_of(*mini[i], a.prompts); };
  a.for_micro_batches({.rows = mini.size(), .max_rows = plan.micro_trajectories, .max_tokens = plan.micro_tokens},
                      tokens_of, images_of, add);
  if (on_device) report += on_device->report();
  if (a.world()) parallel::sum_over_ranks(*a.world(), report);
  return report;
}

/// Runs all updates of one training step and sets actor/*: means over the updates. Returns how many were skipped
/// because their gradient was not finite.
template <class Device>
std::int64_t update_actor(actor<Device>& a, const any_algorithm& algorithm, std::span<const trajectory> batch,
                          const update_plan& plan, random_key order_key, metrics& out) {
  const bool with_kl = contains(algorithm.reads(), field::ref_logp);
  const bool with_entropy = contains(algorithm.reads(), field::entropy);
  std::vector<const trajectory*> order;
  for (const trajectory& t : batch) order.push_back(&t);
  std::vector<std::pair<std::string, std::vector<double>>> per_update;
  const auto note = [&](const char* name, double x) {
    const auto known =
        std::find_if(per_update.begin(), per_update.end(), [&](const auto& p) { return p.first == name; });
    (known != per_update.end() ? *known : per_update.emplace_back(name, std::vector<double>())).second.push_back(x);
  };
  std::int64_t skipped = 0;
  double kl_coefficient = 0, lr = 0;
  std::vector<std::vector<const trajectory*>> minis;  // of each update
  for (std::int64_t epoch = 0; epoch < plan.epochs; ++epoch) {
    if (plan.shuffle) shuffle_rows(order, order_key, epoch);
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i % static_cast<std::size_t>(plan.mini_trajectories) == 0) minis.emplace_back();
      minis.back().push_back(order[i]);
    }
  }
  // Without a shuffle the updates of every epoch have the same rows; what the first one chooses is known in it.
  const std::size_t different = plan.shuffle ? minis.size() : minis.size() / static_cast<std::size_t>(plan.epochs);
  std::vector<std::vector<std::vector<std::int16_t>>> routes(different);
  if (plan.keep_routes)
    for (std::size_t u = different < minis.size() ? 0 : 1; u < different; ++u)
      routes[u] = chosen_experts(a, minis[u], plan);
  for (std::size_t u = 0; u < minis.size(); ++u) {
    a.begin_update();
    const policy_report report = accumulate_gradient(a, algorithm, minis[u], plan, routes[u % different]);
    lr = plan.rate(u);
    const step_outcome outcome = a.apply({.lr = lr, .grad_clip = plan.grad_clip});
    skipped += outcome.skipped;
    kl_coefficient = report.kl_coefficient;
    note("actor/pg_loss", report.policy_loss());
    note("actor/pg_clipfrac", report.clip_fraction());
    note("actor/pg_clipfrac_lower", report.clip_fraction_lower());
    note("actor/ppo_kl", report.ppo_kl_mean());
    if (with_kl) note("actor/kl_loss", report.kl_loss());
    if (with_entropy) note("actor/entropy_loss", report.entropy_value());
    note("actor/grad_norm", outcome.gradient_norm);
  }
  for (const auto& [name, values] : per_update) out.set(name, reduce_metric(name, values));
  if (with_kl) out.set("actor/kl_coef", kl_coefficient);
  out.set("actor/lr", lr);
  if (skipped > 0) out.set("actor/skipped_updates", skipped);
  return skipped;
}

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::vector<double> update_rates(double highest, const optim::schedule& schedule, std::int64_t step,
                                               std::int64_t updates, bool for_each_update) {
  if (!for_each_update) return {highest * schedule.factor(step - 1)};
  std::vector<double> rates;
  for (std::int64_t u = 0; u < updates; ++u) rates.push_back(highest * schedule.factor((step - 1) * updates + u));
  return rates;
}

RLCORE_INLINE void shuffle_rows(std::vector<const trajectory*>& rows, random_key key, std::int64_t epoch) {
  for (std::size_t i = rows.size(); i > 1; --i) {
    const auto n = static_cast<std::uint32_t>(i);
    std::swap(rows[i - 1], rows[key.below(n, n, static_cast<std::uint32_t>(epoch))]);
  }
}

RLCORE_INLINE void micro_fields::assign(std::span<const trajectory* const> mini, std::span<const std::uint32_t> rows,
                                        const data::prompt_dataset* prompts, const float* kept_ref,
                                        std::span<const std::vector<std::int16_t>> routes) {
  packed.clear(), kept_.clear();
  for (auto* field : {&old_logp_, &ref_logp_, &advantage_, &token_advantage_, &selected_}) field->clear();
  const auto append = [](std::vector<float>& to, const std::vector<float>& field) {
    to.insert(to.end(), field.begin(), field.end());
  };
  for (const std::uint32_t i : rows) {
    const trajectory& t = *mini[i];
    packed.push_back(t, prompts, routes.empty() ? t.routed_experts : routes[i]);
    append(old_logp_, t.old_logp), append(ref_logp_, t.ref_logp);
    if (t.kept_ref >= 0) append_run({kept_ref + t.kept_ref, t.policy_length()});
    advantage_.push_back(t.advantage);
    append(selected_, t.selected);
    if (t.weight.empty()) append(token_advantage_, t.token_advantage);
    for (std::size_t k = 0; k < t.weight.size(); ++k)
      token_advantage_.push_back(t.weight[k] * (t.token_advantage.empty() ? t.advantage : t.token_advantage[k]));
  }
}

RLCORE_INLINE policy_rows micro_fields::rows() const {
  policy_rows rows;
  rows.offsets = packed.offsets;
  rows.old_logp = old_logp_, rows.ref_logp = ref_logp_;
  rows.advantage = advantage_, rows.token_advantage = token_advantage_, rows.selected = selected_;
  return rows;
}

RLCORE_INLINE std::vector<float> micro_fields::advantages() const {
  if (!token_advantage_.empty()) return token_advantage_;
  std::vector<float> all;
  for (std::size_t i = 0; i < advantage_.size(); ++i)
    all.insert(all.end(), static_cast<std::size_t>(packed.offsets[i + 1] - packed.offsets[i]), advantage_[i]);
  return all;
}

RLCORE_INLINE void micro_fields::append_run(const device_run& r) {
  if (r.count == 0) return;
  if (!kept_.empty() && kept_.back().data + kept_.back().count == r.data)
    kept_.back().count += r.count;
  else
    kept_.push_back(r);
}

}  // namespace train
RLCORE_END
#endif
