// The token loop of a device: the objective's program over arrays that stay there, and one transfer for the report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/device/losses/host_fallback.hpp"
#include "rlcore/device/losses/rows.hpp"
#include "rlcore/device/losses/weights.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/loop/device_batch.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/traced/objective_program.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace device_losses {

/// What the pieces of an objective gather over rows, as an input of their program.
template <class Objective, class Device>
buffer<float, Device> gathered(Device& device, const Objective& objective, const row_arrays<Device>& rows,
                               const float* counts) {
  using gather = typename detail::structure<Objective>::gathers;
  if constexpr (std::is_same_v<gather, no_gather>) {
    return {};
  } else {
    auto g = room(device, rows.rows());
    gather_rows_of<gather>(device, token_loop::gathered_score(objective), rows, counts, g.data());
    return g;
  }
}

/// Runs the objective's program, writes the gradients, and leaves the sums over rows of values and monitors in `sums`
/// [slots, rows].
template <class Objective, class Device>
void run_objective(Device& device, const Objective& objective, row_arrays<Device>& rows, const float* weights,
                   const float* counts, bool wants_gradients, float* sums) {
  using shape = detail::structure<Objective>;
  const auto g = gathered(device, objective, rows, counts);
  auto arrays = rows.tokens();
  if (g.size() > 0) arrays.input[0][token_loop::gathered_index] = {g.data(), 1, 0};
  const traced_program program = trace_objective(objective);
  auto values = room(device, static_cast<extent_t>(program.results.size()) * rows.slots());
  std::vector<float*> results;
  for (std::size_t r = 0; r < program.results.size(); ++r)
    results.push_back(values.data() + static_cast<extent_t>(r) * rows.slots());
  std::size_t at = shape::slots;
  for (std::size_t f = 0; f < field_count; ++f)
    if (contains(shape::outputs, field_at(f))) {
      results[at] = wants_gradients ? rows.target(f, results[at]) : nullptr;
      ++at;
    }
  arrays.results = results;
  device.run_program(program, arrays);
  for (std::size_t s = 0; s < shape::slots; ++s)
    device.row_sums(sums + static_cast<extent_t>(s) * rows.rows(), results[s], rows.rows(), rows.width());
  at = shape::slots;
  for (std::size_t f = 0; f < field_count; ++f)
    if (contains(shape::outputs, field_at(f)) && wants_gradients) {
      float* slopes = results[at++];
      device.scale_rows(slopes, slopes, weights, rows.rows(), rows.width());
      rows.write(f, slopes);
    }
}

/// The report from the live tokens and the sums of every row: sums[0 .. rows) are counts, then [slots, rows].
template <class Objective, class Aggregation>
void add_rows(report_of<Objective>& out, const std::vector<float>& sums, extent_t rows, const Aggregation& aggregation,
              const global_counts& step) {
  using shape = detail::structure<Objective>;
  const auto at = [&](std::size_t slot, extent_t i) {
    return static_cast<double>(sums[slot * static_cast<std::size_t>(rows) + static_cast<std::size_t>(i)]);
  };
  for (extent_t i = 0; i < rows; ++i) {
    const auto live = static_cast<std::int64_t>(at(0, i));
    out.rows += 1;
    const double weight = live == 0 ? 0.0 : aggregation.weight(row_info{live, i}, step);
    if (weight == 0) continue;
    out.tokens += live;
    out.sequences += 1;
    for (std::size_t p = 0, m = 0, slot = 1; p < shape::pieces; ++p) {
      const double sum = at(slot++, i);
      out.piece[p].aggregated.add(weight * sum);
      out.piece[p].total.add(sum);
      for (std::size_t k = 0; k < shape::monitors_per_piece[p]; ++k) out.monitor[m++].total.add(at(slot++, i));
    }
  }
  out.units = out.tokens;
}

/// The fields that an objective reads, those of what it gathers included.
template <class Objective>
constexpr field reads_of() noexcept {
  using gather = typename detail::structure<Objective>::gathers;
  if constexpr (std::is_same_v<gather, no_gather>)
    return detail::structure<Objective>::reads;
  else
    return detail::structure<Objective>::reads | gather::score::reads;
}

}  // namespace device_losses

/// Loss of an objective over fields in the memory of a device, where its gradients are written: the objective's pieces
/// run there as traced programs, values, metrics and gradients as by evaluate() on the host up to rounding in float.
/// Masked slots do not reach a result. The report comes back in one transfer; nothing else does. Throws what evaluate()
/// throws on the host, and what the device throws.
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
  using shape = detail::structure<Objective>;
  static_assert(detail::check_objective<Objective, Aggregation>(std::make_index_sequence<piece_count<Objective>>{}));
  detail::check_reads_of_all(objective, std::make_index_sequence<piece_count<Objective>>{});
  const auto prepared = token_loop::prepare(addresses_of(batch), addresses_of(gradients),
                                            device_losses::reads_of<Objective>(), shape::outputs);
  for (std::size_t f = 0; f < field_count; ++f)
    if (contains(shape::row_fields, field_at(f)) && prepared.input[f].per_token)
      throw std::invalid_argument("rlcore: this objective has one term per sequence and needs one " +
                                  std::string(field_names[f]) +
                                  " per row; pass a vector, in packed batches per_row(x)");
  device_losses::row_arrays<Device> rows(device, prepared, device_losses::reads_of<Objective>());
  if (rows.slots() == 0) return device_losses::on_host(device, objective, aggregation, batch, step, gradients);
  report_of<Objective> total;
  detail::name_entries<Objective>(objective, total, std::make_index_sequence<piece_count<Objective>>{});
  total.empty_step = step.tokens() == 0;

  auto sums = device_losses::room(device, static_cast<extent_t>(1 + shape::slots) * rows.rows());
  device.row_sums(sums.data(), rows.live().data(), rows.rows(), rows.width());
  const device_losses::row_weights<Device> weights(device, aggregation, step, sums.data(), rows.rows(), rows.width());
  if (weights.some_are_zero()) weights.drop_zeros(device, rows);
  device_losses::run_objective(device, objective, rows, weights.data(), sums.data(), prepared.wants_gradients,
                               sums.data() + rows.rows());
  rows.zero_others(shape::outputs);
  std::vector<float> back(sums.size());
  sums.download(back);
  device_losses::add_rows<Objective>(total, back, rows.rows(), aggregation, step);
  token_loop::check_counts(total.tokens, total.sequences, total.rows, step);
  return total;
}

/// Loss, gradient and report of a named algorithm on a device.
template <loss_device Device, class Advantage, class Objective, class Aggregation, class T, class Counts>
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

RLCORE_ALGORITHM_END
RLCORE_END
