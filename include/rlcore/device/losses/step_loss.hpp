// Type-erased token loss over the micro-batches of an optimizer step on a device: gradients per micro-batch, one report
// transfer per step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/device/losses/rows.hpp"
#include "rlcore/objective/loop/detail/rows.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/traced/trace.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace device_losses {

/// Type-erased token objective.
struct token_program {
  traced_program program;  ///< trace_objective()
  std::size_t sums = 0;    ///< number of values and monitors, the first results, summed over each row
  field reads = field::none, outputs = field::none;
  field row_fields = field::none;               ///< fields that are read only with one value per row
  std::optional<traced_program> gathered = {};  ///< the values that pieces gather over rows
  bool averages = false;                        ///< gathers the mean, not the sum
};

/// Traces an objective with its current settings.
template <class Objective>
token_program token_program_of(const Objective& objective) {
  using shape = detail::structure<Objective>;
  using gather = typename shape::gathers;
  token_program p{trace_objective(objective), shape::slots, shape::reads, shape::outputs, shape::row_fields};
  if constexpr (!std::is_same_v<gather, no_gather>) {
    p.reads = p.reads | gather::score::reads;
    p.gathered = trace(token_loop::gathered_score(objective));
    p.averages = gather::averages;
  }
  return p;
}

/// Whether every slope is 0 where field `f` is 0, as long as the other fields are finite: true for a policy gradient
/// and its advantage.
inline bool slopes_vanish_with(const token_program& p, field f) {
  const std::vector<bool> zero = steps_that_vanish(p.program, f);
  for (std::size_t r = p.sums; r < p.program.results.size(); ++r)
    if (!zero[p.program.results[r].step]) return false;
  return true;
}

/// token_loop::prepare() of addresses on a device. Throws what that throws, and for a token field that must be a row
/// field.
inline token_loop::prepared_batch<float> prepare_tokens(const token_program& p, const token_batch<float>& batch,
                                                        const token_gradients<float>& gradients) {
  auto prepared = token_loop::prepare(batch, gradients, p.reads, p.outputs);
  for (std::size_t f = 0; f < field_count; ++f)
    if (contains(p.row_fields, field_at(f)) && prepared.input[f].per_token)
      throw std::invalid_argument("rlcore: this objective has one term per sequence and needs one " +
                                  std::string(field_names[f]) +
                                  " per row; pass a vector, in packed batches per_row(x)");
  return prepared;
}

/// Runs the program over `rows`, writes the gradients, and leaves the sums over rows of values and monitors in `sums`
/// [p.sums, rows]. `counts`: the live tokens of every row.
template <class Device>
void run_program_of(Device& device, const token_program& p, row_arrays<Device>& rows, const float* weights,
                    const float* counts, bool wants_gradients, float* sums) {
  buffer<float, Device> gathered;
  auto arrays = rows.tokens();
  if (p.gathered) {
    gathered = room(device, rows.rows());
    gather_rows_of(device, *p.gathered, p.averages, rows, counts, gathered.data());
    arrays.input[0][token_loop::gathered_index] = {gathered.data(), 1, 0};
  }
  auto values = room(device, static_cast<extent_t>(p.program.results.size()) * rows.slots());
  std::vector<float*> results;
  for (std::size_t r = 0; r < p.program.results.size(); ++r)
    results.push_back(values.data() + static_cast<extent_t>(r) * rows.slots());
  const auto for_each_output = [&](auto f) {
    std::size_t at = p.sums;
    for (std::size_t k = 0; k < field_count; ++k)
      if (contains(p.outputs, field_at(k))) f(k, results[at++]);
  };
  for_each_output([&](std::size_t f, float*& to) { to = wants_gradients ? rows.target(f, to) : nullptr; });
  arrays.results = results;
  device.run(op::run_program{.program = p.program, .arrays = arrays});
  for (std::size_t s = 0; s < p.sums; ++s)
    device.run(op::row_sums{.sums = sums + static_cast<extent_t>(s) * rows.rows(),
                            .x = results[s],
                            .rows = rows.rows(),
                            .width = rows.width()});
  if (!wants_gradients) return;
  for_each_output([&](std::size_t f, float* slopes) {
    device.run(op::scale_rows{.y = slopes, .x = slopes, .factor = weights, .rows = rows.rows(), .width = rows.width()});
    rows.write(f, slopes);
  });
}

/// Enqueues the objective over a batch of prepare_tokens(): gradients, and in `sums` [1 + p.sums, rows] the live tokens
/// of every row, then its sums of values and monitors.
template <class Device>
void run_tokens(Device& device, const token_program& p, const aggregation_view& aggregation,
                const token_loop::prepared_batch<float>& batch, const global_counts& step,
                whole_numbers<Device>& numbers, float* sums) {
  row_arrays<Device> rows(device, batch, p.reads, numbers);
  if (rows.slots() == 0) {
    if (rows.rows() > 0) device.fill_zero(sums, (1 + p.sums) * static_cast<std::size_t>(rows.rows()) * sizeof(float));
    return;
  }
  device.run(op::row_sums{.sums = sums, .x = rows.live().data(), .rows = rows.rows(), .width = rows.width()});
  const row_weights<Device> weights(device, aggregation, step, sums, rows);
  if (weights.some_are_zero()) weights.drop_zeros(device, rows);
  run_program_of(device, p, rows, weights.data(), sums, batch.wants_gradients, sums + rows.rows());
  rows.zero_others(p.outputs);
}

/// Adds a batch to a report. `sums` [1 + slots, rows]: the live tokens of every row, then its sums.
template <class Objective, class Aggregation>
void add_rows(report_of<Objective>& out, std::span<const float> sums, extent_t rows, const Aggregation& aggregation,
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
}

}  // namespace device_losses

/// evaluate() on a device in parts: add() enqueues a micro-batch, report() waits for all of them. The report's sums per
/// row stay in device memory until then.
template <loss_device Device, class Objective, class Aggregation>
class step_loss {
  using shape = detail::structure<Objective>;

 public:
  /// A loss of at most `most_rows` rows in all, or those of the first micro-batch; `step` counts the rows of all
  /// devices.
  step_loss(Device& device, Objective objective, Aggregation aggregation, const global_counts& step,
            extent_t most_rows = 0)
      : device_(device),
        objective_(std::move(objective)),
        aggregation_(std::move(aggregation)),
        step_(step),
        program_(device_losses::token_program_of(objective_)),
        most_rows_(most_rows) {}

  /// Whether every slope is 0 where field `f` is 0, see device_losses::slopes_vanish_with.
  bool slopes_vanish_with(field f) const { return device_losses::slopes_vanish_with(program_, f); }

  /// Enqueues the gradients of a micro-batch, given as addresses of addresses_of(). Throws what evaluate() throws for
  /// shapes that do not fit and fields that are missing.
  void add(const token_batch<float>& batch, const token_gradients<float>& gradients) {
    const auto prepared = device_losses::prepare_tokens(program_, batch, gradients);
    const extent_t rows = prepared.shape.rows;
    const auto floats = (1 + shape::slots) * static_cast<std::size_t>(rows);
    if (rows_.empty())
      sums_ = device_losses::room(device_, static_cast<extent_t>(1 + shape::slots) * std::max(most_rows_, rows));
    if (used_ + floats > sums_.size())
      throw std::invalid_argument("rlcore: the micro-batches of a step have more rows than its loss has memory for");
    device_losses::run_tokens(device_, program_, device_losses::aggregation_view(aggregation_), prepared, step_,
                              numbers_, sums_.data() + used_);
    used_ += floats;
    rows_.push_back(rows);
  }

  /// The sums over all micro-batches, in one transfer. Throws std::invalid_argument if they hold more than `step`.
  report_of<Objective> report() const {
    report_of<Objective> total = empty_report(objective_);
    total.empty_step = step_.tokens() == 0;
    std::vector<float> back(used_);
    if (used_ > 0) device_.download(back.data(), sums_.data(), used_ * sizeof(float));
    std::span<const float> left(back);
    for (const extent_t rows : rows_) {
      const std::size_t floats = (1 + shape::slots) * static_cast<std::size_t>(rows);
      device_losses::add_rows<Objective>(total, left.first(floats), rows, aggregation_, step_);
      left = left.subspan(floats);
    }
    total.units = total.tokens;
    token_loop::check_counts(total.tokens, total.sequences, total.rows, step_);
    return total;
  }

 private:
  Device& device_;
  Objective objective_;
  Aggregation aggregation_;
  global_counts step_;
  device_losses::token_program program_;
  extent_t most_rows_;
  buffer<float, Device> sums_;
  device_losses::whole_numbers<Device> numbers_;
  std::size_t used_ = 0;
  std::vector<extent_t> rows_;
};

RLCORE_ALGORITHM_END
RLCORE_END
