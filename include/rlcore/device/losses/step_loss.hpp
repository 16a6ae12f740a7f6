// Loss over the micro-batches of an optimizer step on a device: gradients per micro-batch, one report transfer per
// step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/device/losses/token_program.hpp"
#include "rlcore/device/losses/weights.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace device_losses {

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
