// Row weights of an aggregation, and sums or means over rows, on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/device/losses/rows.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/traced/trace.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace device_losses {

/// Type-erased, non-owning view of an aggregation.
class aggregation_view {
 public:
  /// View of `held`, which must outlive it.
  template <class Aggregation>
    requires(!std::is_same_v<Aggregation, aggregation_view>)
  explicit aggregation_view(const Aggregation& held) noexcept
      : held_(&held),
        weight_([](const void* of, row_info row, const global_counts& step) {
          return static_cast<double>(static_cast<const Aggregation*>(of)->weight(row, step));
        }),
        length_(!ignores_length<Aggregation>) {}

  /// The aggregation's weight of a row.
  double weight(row_info row, const global_counts& step) const noexcept { return weight_(held_, row, step); }
  /// Whether the weight depends on the length of a row.
  bool looks_at_length() const noexcept { return length_; }

 private:
  const void* held_;
  double (*weight_)(const void*, row_info, const global_counts&);
  bool length_;
};

/// The weight of every row. An aggregation is a function on the host. If only the device knows the number of live
/// tokens of a row, it looks up the weight in a table by that number.
template <class Device>
class row_weights {
 public:
  /// `counts`: the live tokens of every row, on the device. Rows without live tokens have weight 0, or with
  /// `empty_rows_weigh` the aggregation's weight.
  row_weights(Device& device, const aggregation_view& aggregation, const global_counts& step, const float* counts,
              const row_arrays<Device>& of, bool empty_rows_weigh = false)
      : weight_(room(device, of.rows())) {
    const extent_t rows = of.rows(), width = of.width();
    const auto weight = [&](std::int64_t tokens, extent_t row) {
      const bool nothing = step.tokens() == 0 || (tokens == 0 && !empty_rows_weigh);  // no live slot
      const double w = nothing ? 0.0 : aggregation.weight(row_info{tokens, row}, step);
      if (w == 0 && tokens > 0 && !nothing) some_are_zero_ = true;
      return static_cast<float>(w);
    };
    std::vector<float> table;
    if (!of.masked() || !aggregation.looks_at_length()) {
      const extent_t any = width > 0 ? width : 1;
      for (extent_t i = 0; i < rows; ++i) table.push_back(weight(of.masked() ? any : of.length(i), i));
      weight_.upload(table);
    } else {  // by the parity of the row, then by its length
      for (extent_t parity = 0; parity < 2; ++parity)
        for (extent_t tokens = 0; tokens <= width; ++tokens) table.push_back(weight(tokens, parity));
      for (extent_t i = 0; i < rows; ++i) table.push_back(static_cast<float>(i % 2 * (width + 1)));
      const auto numbers = uploaded(device, table);
      const auto place = room(device, rows);
      buffer<std::int32_t, Device> index(device, static_cast<std::size_t>(rows));
      float* at = const_cast<float*>(place.data());
      device.run(op::add{.y = at, .a = counts, .b = numbers.data() + 2 * (width + 1), .n = rows});
      device.run(op::to_indices{.y = index.data(), .x = at, .n = rows});
      device.run(op::gather_rows{.y = weight_.data(),
                                 .x = numbers.data(),
                                 .x_rows = 2 * (width + 1),
                                 .ids = index.data(),
                                 .count = rows,
                                 .width = 1});
    }
  }

  const float* data() const noexcept { return weight_.data(); }
  /// Whether a row with tokens may have weight 0, which excludes it.
  bool some_are_zero() const noexcept { return some_are_zero_; }
  /// Clears the live slots of rows with weight 0.
  void drop_zeros(Device& device, row_arrays<Device>& rows) const {
    auto arrays = rows.tokens();
    arrays.input[0][0] = {weight_.data(), 1, 0};
    const traced weight = own_input(field::logp);
    auto kept = room(device, rows.slots());
    run_one(device, traced_math::select(weight == traced(0), traced(0), traced(1)), arrays, kept.data());
    rows.live() = std::move(kept);
  }

 private:
  buffer<float, Device> weight_;
  bool some_are_zero_ = false;
};

/// to[i] = the sum or the mean (`averages`) of the first result of `score` over the live slots of row i; 0 for a row
/// without live slots.
template <class Device>
void gather_rows_of(Device& device, const traced_program& score, bool averages, const row_arrays<Device>& rows,
                    const float* counts, float* to) {
  auto value = room(device, rows.slots());
  std::vector<float*> results(score.results.size());
  results[0] = value.data();
  auto arrays = rows.tokens();
  arrays.results = results;
  device.run(op::run_program{.program = score, .arrays = arrays});
  device.run(op::row_sums{.sums = to, .x = value.data(), .rows = rows.rows(), .width = rows.width()});
  if (!averages) return;
  program_arrays<float> mean;
  mean.rows = rows.rows(), mean.width = 1;
  mean.input[0][0] = {to, 1, 0}, mean.input[0][1] = {counts, 1, 0}, mean.live = {counts, 1, 0};
  run_one(device, own_input(field::logp) / own_input(field::old_logp), mean, to);
}

}  // namespace device_losses
RLCORE_ALGORITHM_END
RLCORE_END
