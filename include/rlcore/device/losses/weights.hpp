// What rows weigh, and what is gathered over them, on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "rlcore/device/losses/rows.hpp"
#include "rlcore/objective/aggregation/aggregation.hpp"
#include "rlcore/objective/traced/trace.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace device_losses {

/// A field that no piece of the caller's is shown, for programs of the loss itself: of row 0.
inline traced own_input(field f) { return traced::field_value(f, 0); }

/// Runs the program of one value over [rows, width] arrays.
template <class Device>
void run_one(Device& device, const traced& value, program_arrays<float> arrays, float* result) {
  program_writer writer;
  writer.result("value", value);
  float* const results[] = {result};
  arrays.results = results;
  device.run_program(writer.finish(), arrays);
}

/// The weight of every row. An aggregation is a function on the host, so the device looks it up in a table by the
/// number of live tokens, which only the device knows.
template <class Device>
class row_weights {
 public:
  /// `counts`: the live tokens of every row, on the device.
  template <class Aggregation>
  row_weights(Device& device, const Aggregation& aggregation, const global_counts& step, const float* counts,
              extent_t rows, extent_t width, bool empty_rows_weigh = false)
      : weight_(room(device, rows)) {
    const auto of = [&](std::int64_t tokens, extent_t row) {
      const bool nothing = step.tokens() == 0 || (tokens == 0 && !empty_rows_weigh);  // no slot to weigh
      const double w = nothing ? 0.0 : aggregation.weight(row_info{tokens, row}, step);
      if (w == 0 && tokens > 0 && !nothing) some_are_zero_ = true;
      return static_cast<float>(w);
    };
    std::vector<float> table;
    if constexpr (ignores_length<Aggregation>) {
      for (extent_t i = 0; i < rows; ++i) table.push_back(of(width > 0 ? width : 1, i));
      weight_.upload(table);
    } else {  // by the parity of the row, then by its length
      for (extent_t parity = 0; parity < 2; ++parity)
        for (extent_t tokens = 0; tokens <= width; ++tokens) table.push_back(of(tokens, parity));
      for (extent_t i = 0; i < rows; ++i) table.push_back(static_cast<float>(i % 2 * (width + 1)));
      const auto numbers = uploaded(device, table);
      const auto place = room(device, rows);
      buffer<std::int32_t, Device> index(device, static_cast<std::size_t>(rows));
      float* at = const_cast<float*>(place.data());
      device.add(at, counts, numbers.data() + 2 * (width + 1), rows);
      device.to_indices(index.data(), at, rows);
      device.gather_rows(weight_.data(), numbers.data(), 2 * (width + 1), index.data(), rows, 1);
    }
  }

  const float* data() const noexcept { return weight_.data(); }
  /// Whether a row with tokens may weigh 0, so that it takes no part.
  bool some_are_zero() const noexcept { return some_are_zero_; }
  /// Rows that weigh 0 have no live slot from now on.
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

/// to[i] = the sum or the mean of a score over the live slots of row i; 0 for a row without any.
template <class Gather, class Device, class Score>
void gather_rows_of(Device& device, const Score& score, const row_arrays<Device>& rows, const float* counts,
                    float* to) {
  const traced_program program = trace(score);
  auto value = room(device, rows.slots());
  std::vector<float*> results(program.results.size());
  results[0] = value.data();
  auto arrays = rows.tokens();
  arrays.results = results;
  device.run_program(program, arrays);
  device.row_sums(to, value.data(), rows.rows(), rows.width());
  if (!Gather::averages) return;
  program_arrays<float> mean;
  mean.rows = rows.rows(), mean.width = 1;
  mean.input[0][0] = {to, 1, 0}, mean.input[0][1] = {counts, 1, 0}, mean.live = {counts, 1, 0};
  run_one(device, own_input(field::logp) / own_input(field::old_logp), mean, to);
}

}  // namespace device_losses
RLCORE_ALGORITHM_END
RLCORE_END
