// Token losses on a device: the traced objective over device arrays, with one transfer for the report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/device/losses/rows.hpp"
#include "rlcore/device/losses/step_loss.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/objective/loop/device_batch.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"
#include "rlcore/objective/piece/fields_used.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Loss of an objective over fields in device memory; gradients are written to device memory. The objective's pieces
/// run on the device as traced programs; values, metrics and gradients equal those of evaluate() on the host up to
/// rounding in float. Masked slots do not affect results. Only the report is downloaded, in one transfer. Throws what
/// evaluate() throws on the host, and what the device throws.
template <loss_device Device, class Objective, class Aggregation, class T, class Counts>
report_of<Objective> evaluate(Device& device, const Objective& objective, const Aggregation& aggregation,
                              const token_batch<T, Device>& batch, const Counts& step,
                              const std::type_identity_t<token_gradients<T, Device>>& gradients = {}) {
  static_assert(std::is_same_v<T, float>, "rlcore: a device computes losses in float: token_batch<float, Device>");
  static_assert(
      std::is_same_v<Counts, global_counts>,
      "rlcore: evaluate takes the global_counts of the whole optimizer step, not a number and not the counts of one "
      "batch; add every row of the step with global_counts::add_row");
  static_assert(rlcore::aggregation<Aggregation>,
                "rlcore: an aggregation has double weight(row_info row, const global_counts& step) const noexcept");
  static_assert(detail::check_objective<Objective, Aggregation>(std::make_index_sequence<piece_count<Objective>>{}));
  detail::check_reads_of_all(objective, std::make_index_sequence<piece_count<Objective>>{});
  step_loss<Device, Objective, Aggregation> loss(device, objective, aggregation, step);
  loss.add(addresses_of(batch), addresses_of(gradients));
  return loss.report();
}

/// Loss, gradient and report of a named algorithm on a device.
template <loss_device Device, class Advantage, class Objective, class Aggregation, class T, class Counts>
  requires stands_for_counts<Counts>
auto evaluate(Device& device, const algorithm<Advantage, Objective, Aggregation>& named,
              const token_batch<T, Device>& batch, const Counts& step,
              const std::type_identity_t<token_gradients<T, Device>>& gradients = {}) {
  return evaluate(device, named.objective, named.aggregation, batch, step, gradients);
}
/// The same with another aggregation.
template <loss_device Device, class Advantage, class Objective, class Replaced, class Aggregation, class T,
          class Counts>
auto evaluate(Device& device, const algorithm<Advantage, Objective, Replaced>& named, const Aggregation& aggregation,
              const token_batch<T, Device>& batch, const Counts& step,
              const std::type_identity_t<token_gradients<T, Device>>& gradients = {}) {
  return evaluate(device, named.objective, aggregation, batch, step, gradients);
}

/// A device with kernels and host-accessible memory, such as cpu.
template <class D>
concept host_device = device<D> && D::host_readable;

namespace device_losses {

/// The same views, for the pack loop.
template <class T, class Device>
token_batch<T> on_host(const token_batch<T, Device>& b) {
  return {b.logp,  b.old_logp,  b.ref_logp, b.rollout_logp, b.advantage, b.weight,  b.entropy,
          b.value, b.old_value, b.target,   b.selected,     b.mask,      b.lengths, b.offsets};
}
/// The same for gradients.
template <class T, class Device>
token_gradients<T> on_host(const token_gradients<T, Device>& g) {
  return {g.logp, g.entropy, g.value, g.add};
}

}  // namespace device_losses

/// evaluate(serial{}, objective, aggregation, batch, step, gradients), so that cpu and npu share one program.
template <host_device Device, class Objective, class Aggregation, class T, class Counts>
auto evaluate(Device&, const Objective& objective, const Aggregation& aggregation, const token_batch<T, Device>& batch,
              const Counts& step, const std::type_identity_t<token_gradients<T, Device>>& gradients = {}) {
  return evaluate(serial{}, objective, aggregation, device_losses::on_host(batch), step,
                  device_losses::on_host(gradients));
}
/// The same for a named algorithm.
template <host_device Device, class Algorithm, class T, class Counts>
  requires stands_for_counts<Counts>
auto evaluate(Device&, const Algorithm& named, const token_batch<T, Device>& batch, const Counts& step,
              const std::type_identity_t<token_gradients<T, Device>>& gradients = {}) {
  return evaluate(serial{}, named, device_losses::on_host(batch), step, device_losses::on_host(gradients));
}
/// The same for a preference loss with an additional SFT term on the chosen answers.
template <host_device Device, class Pair, class Chosen, class T, class Counts>
auto evaluate(Device&, const likelihood_regularised<Pair, Chosen>& named, const token_batch<T, Device>& batch,
              const Counts& step, const global_counts& chosen,
              const std::type_identity_t<token_gradients<T, Device>>& gradients = {}) {
  return evaluate(serial{}, named, device_losses::on_host(batch), step, chosen, device_losses::on_host(gradients));
}

namespace device_losses {

/// The counts of the rows 0, every, 2 every, ... of a batch. A mask is summed on the device, with one download; without
/// a mask the host knows the lengths.
template <loss_device Device, class T>
global_counts counts_of_rows(Device& device, const token_batch<T, Device>& batch, extent_t every) {
  const token_batch<T> addresses = addresses_of(batch);
  if (!addresses.mask.present()) return detail::counts_of_rows(addresses, every);
  constexpr field every_field = static_cast<field>((1u << field_count) - 1);
  token_loop::prepared_batch<T> prepared;
  prepared.shape = detail::shape_of(addresses, detail::inputs_of(addresses), every_field);
  detail::check_mask(addresses.mask, prepared.shape);
  prepared.mask = addresses.mask, prepared.lengths = addresses.lengths, prepared.offsets = addresses.offsets;
  whole_numbers<Device> numbers;
  row_arrays<Device> rows(device, prepared, field::none, numbers);
  std::vector<float> live(static_cast<std::size_t>(rows.rows()));
  if (rows.slots() > 0) {
    auto sums = room(device, rows.rows());
    device.run(op::row_sums{.sums = sums.data(), .x = rows.live().data(), .rows = rows.rows(), .width = rows.width()});
    sums.download(live);
  }
  global_counts counts;
  for (std::size_t i = 0; i < live.size(); i += static_cast<std::size_t>(every))
    counts.add_row(static_cast<std::int64_t>(live[i]));
  return counts;
}
/// The same where the host reads the memory.
template <host_device Device, class T>
global_counts counts_of_rows(Device&, const token_batch<T, Device>& batch, extent_t every) {
  return detail::counts_of_rows(on_host(batch), every);
}

}  // namespace device_losses

/// The counts of `batch`, whose arrays lie on `device`, to be used where one call on one rank is the whole optimizer
/// step.
template <class Device, class T>
global_counts loss_counts(Device& device, const token_batch<T, Device>& batch) {
  return device_losses::counts_of_rows(device, batch, 1);
}
/// The counts of its chosen rows; pairs are rows 2k (chosen) and 2k + 1.
template <class Device, class T>
global_counts chosen_counts(Device& device, const token_batch<T, Device>& batch) {
  return device_losses::counts_of_rows(device, batch, 2);
}

/// A named algorithm on a device where this call on this rank is the whole optimizer step: the counts are those of the
/// batch.
template <class Device, class Advantage, class Objective, class Aggregation, class T>
auto evaluate(Device& device, const algorithm<Advantage, Objective, Aggregation>& named,
              const token_batch<T, Device>& batch,
              const std::type_identity_t<token_gradients<T, Device>>& gradients = {}) {
  return evaluate(device, named, batch, loss_counts(device, batch), gradients);
}
/// The same for a loss of pairs with the likelihood of the chosen answers.
template <class Device, class Pair, class Chosen, class T>
auto evaluate(Device& device, const likelihood_regularised<Pair, Chosen>& named, const token_batch<T, Device>& batch,
              const std::type_identity_t<token_gradients<T, Device>>& gradients = {}) {
  return evaluate(device, named, batch, loss_counts(device, batch), chosen_counts(device, batch), gradients);
}

RLCORE_ALGORITHM_END
RLCORE_END
