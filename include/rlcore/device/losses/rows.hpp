// Padded rows of a batch on a device, with a mask of live slots, for every field layout; row weights of an aggregation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/detail/rows.hpp"
#include "rlcore/objective/traced/trace.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace device_losses {

/// Copies host values to device memory.
template <class T, class Device>
buffer<T, Device> uploaded(Device& device, const std::vector<T>& host) {
  buffer<T, Device> b(device, host.size());
  b.upload(host);
  return b;
}
/// Memory for n floats.
template <class Device>
buffer<float, Device> room(Device& device, extent_t n) {
  return {device, static_cast<std::size_t>(n)};
}

/// Input `f` of the loss's own programs, of row 0; the caller's pieces do not see it.
inline traced own_input(field f) { return traced::field_value(f, 0); }

/// Runs the program of one value over [rows, width] arrays.
template <class Device>
void run_one(Device& device, const traced& value, program_arrays<float> arrays, float* result) {
  program_writer writer;
  writer.result("value", value);
  float* const results[] = {result};
  arrays.results = results;
  device.run(op::run_program{.program = writer.finish(), .arrays = arrays});
}

/// 0, 1, 2, ... in device memory, uploaded when more are needed.
template <class Device>
class whole_numbers {
 public:
  /// The first n.
  const float* up_to(Device& device, extent_t n) {
    if (static_cast<extent_t>(numbers_.size()) < n) {
      std::vector<float> host(std::max(static_cast<std::size_t>(n), 2 * numbers_.size()));
      std::iota(host.begin(), host.end(), 0.f);
      numbers_ = uploaded(device, host);
    }
    return numbers_.data();
  }

 private:
  buffer<float, Device> numbers_;
};

/// Fields as program inputs [rows, width], and the scatter of slopes to gradients. Packed rows are padded to the
/// longest and packed again.
template <class Device>
class row_arrays {
 public:
  /// `b` holds addresses of the device. `reads` are the fields that programs will read.
  row_arrays(Device& device, const token_loop::prepared_batch<float>& b, field reads, whole_numbers<Device>& numbers)
      : device_(device), batch_(b), numbers_(numbers), rows_(b.shape.rows), width_(b.shape.width) {
    if (b.shape.packed) {
      width_ = 0;
      for (extent_t i = 0; i < rows_; ++i) width_ = std::max(width_, b.length(i));
    }
    spread_ = b.shape.packed && rows_ * width_ != b.shape.width;
    find_places();
    for (std::size_t f = 0; f < field_count; ++f)
      if (contains(reads, field_at(f)) && field_at(f) != field::gathered) show(f);
    find_live();
  }

  extent_t rows() const noexcept { return rows_; }
  extent_t width() const noexcept { return width_; }
  extent_t slots() const noexcept { return rows_ * width_; }
  /// Whether the batch has a mask; if not, the live slots of row i are its first length(i).
  bool masked() const noexcept { return batch_.mask.present(); }
  /// Slots of row i, including masked ones.
  extent_t length(extent_t i) const noexcept { return batch_.length(i); }
  /// The inputs of a program over all slots, with the live mask; without results.
  program_arrays<float> tokens() const {
    program_arrays<float> a;
    a.rows = rows_, a.width = width_;
    std::copy_n(input_, field_count, a.input[0]);
    a.live = {live_.data(), width_, 1};
    return a;
  }
  /// Input of a field with one value per row.
  program_input<float> per_row(std::size_t f) const noexcept { return {input_[f].data, input_[f].row_stride, 0}; }
  /// live[rows, width], 1 or 0.
  buffer<float, Device>& live() noexcept { return live_; }

  /// The output buffer for slopes by field f: the gradient itself, or `other` [rows, width].
  float* target(std::size_t f, float* other) const noexcept {
    return spread_ || batch_.adds ? other : batch_.output[f].data;
  }
  /// Writes or adds slopes by field f to the gradient; 0 for slots that are not live.
  void write(std::size_t f, const float* slopes) {
    float* to = batch_.output[f].data;
    if (slopes == to) return;
    const extent_t n = spread_ ? batch_.shape.width : slots();
    if (!spread_) return device_.run(op::add{.y = to, .a = to, .b = slopes, .n = n});
    if (!batch_.adds)
      return device_.run(
          op::gather_rows{.y = to, .x = slopes, .x_rows = slots(), .ids = back_, .count = n, .width = 1});
    const auto part = room(device_, n);
    device_.run(
        op::gather_rows{.y = part_data(part), .x = slopes, .x_rows = slots(), .ids = back_, .count = n, .width = 1});
    device_.run(op::add{.y = to, .a = to, .b = part.data(), .n = n});
  }
  /// Zeroes gradients that no piece produces, unless gradients accumulate.
  void zero_others(field produced) {
    const auto n = static_cast<std::size_t>(batch_.shape.packed ? batch_.shape.width : slots());
    for (std::size_t f = 0; f < field_count; ++f)
      if (batch_.output[f].data != nullptr && !contains(produced, field_at(f)) && !batch_.adds)
        device_.fill_zero(batch_.output[f].data, n * sizeof(float));
  }

 private:
  /// Limit below which integers are exact as floats, and a table of tokens by rows is small.
  static constexpr extent_t most_exact = extent_t{1} << 24;

  static float* part_data(const buffer<float, Device>& b) { return const_cast<float*>(b.data()); }

  /// Lengths, the token of every slot and the slot of every token.
  void find_places() {
    if (!batch_.lengths.present() && !spread_) return;
    std::vector<std::int32_t> lengths;
    for (extent_t i = 0; i < rows_; ++i) lengths.push_back(static_cast<std::int32_t>(batch_.length(i)));
    if (!spread_) {
      places_ = uploaded(device_, lengths);
    } else if (slots() < most_exact && rows_ * batch_.shape.width < most_exact) {
      compute_places();
    } else {
      upload_places(std::move(lengths));
    }
    lengths_ = places_.data();
    if (spread_) from_ = lengths_ + rows_, back_ = from_ + slots();
  }
  void upload_places(std::vector<std::int32_t> all) {
    for (extent_t i = 0; i < rows_; ++i)
      for (extent_t t = 0; t < width_; ++t)
        all.push_back(t < batch_.length(i) ? static_cast<std::int32_t>(batch_.offset(i) + t) : 0);
    for (extent_t i = 0; i < rows_; ++i)
      for (extent_t t = 0; t < batch_.length(i); ++t) all.push_back(static_cast<std::int32_t>(i * width_ + t));
    places_ = uploaded(device_, all);
  }
  /// The same by programs, from three numbers for each row: token t of row i is at first + t, and a token's slot is its
  /// index plus the padding of the rows before its own.
  void compute_places() {
    const extent_t n = batch_.shape.width;
    std::vector<float> each;
    for (extent_t i = 0; i < rows_; ++i) each.push_back(static_cast<float>(batch_.length(i)));
    for (extent_t i = 0; i < rows_; ++i) each.push_back(static_cast<float>(batch_.offset(i)));
    for (extent_t i = 0; i < rows_; ++i) each.push_back(static_cast<float>(i == 0 ? 0 : width_ - batch_.length(i - 1)));
    const auto of_rows = uploaded(device_, each);
    const float *length = of_rows.data(), *first = length + rows_, *missing = first + rows_;
    const float* number = numbers_.up_to(device_, std::max(n, width_));
    auto place = room(device_, slots()), missing_before = room(device_, n * rows_);
    places_ = buffer<std::int32_t, Device>(device_, static_cast<std::size_t>(rows_ + slots() + n));
    std::int32_t* to = places_.data();
    device_.run(op::to_indices{.y = to, .x = length, .n = rows_});

    const traced x = own_input(field::logp), y = own_input(field::old_logp), z = own_input(field::ref_logp);
    program_arrays<float> of_slots;
    of_slots.rows = rows_, of_slots.width = width_;
    of_slots.input[0][0] = {number, 0, 1}, of_slots.input[0][1] = {first, 1, 0}, of_slots.input[0][2] = {length, 1, 0};
    run_one(device_, traced_math::select(x < z, x + y, traced(0)), of_slots, place.data());
    device_.run(op::to_indices{.y = to + rows_, .x = place.data(), .n = slots()});

    program_arrays<float> of_tokens;  // [tokens, rows]: padding before each token
    of_tokens.rows = n, of_tokens.width = rows_;
    of_tokens.input[0][0] = {number, 1, 0}, of_tokens.input[0][1] = {first, 0, 1};
    of_tokens.input[0][2] = {missing, 0, 1};
    run_one(device_, traced_math::select(y <= x, z, traced(0)), of_tokens, missing_before.data());
    device_.run(op::row_sums{.sums = place.data(), .x = missing_before.data(), .rows = n, .width = rows_});
    device_.run(op::add{.y = place.data(), .a = place.data(), .b = number, .n = n});
    device_.run(op::to_indices{.y = to + rows_ + slots(), .x = place.data(), .n = n});
  }
  void show(std::size_t f) {
    const auto& x = batch_.input[f];
    if (!x.per_token) {
      input_[f] = {x.data, x.row_stride, 0};
    } else if (!spread_) {
      input_[f] = {x.data, width_, 1};
    } else {
      spread_fields_.push_back(room(device_, slots()));
      float* to = spread_fields_.back().data();
      device_.run(op::gather_rows{
          .y = to, .x = x.data, .x_rows = batch_.shape.width, .ids = from_, .count = slots(), .width = 1});
      input_[f] = {to, width_, 1};
    }
  }
  void find_live() {
    live_ = room(device_, slots());
    mask_elements mask;
    if (batch_.mask.present())
      mask = {batch_.mask.data, batch_.shape.packed ? batch_.shape.width : slots(), batch_.mask.bytes,
              batch_.mask.floating};
    device_.run(op::live_slots{
        .live = live_.data(), .mask = mask, .lengths = lengths_, .slots = from_, .rows = rows_, .width = width_});
  }

  Device& device_;
  const token_loop::prepared_batch<float>& batch_;
  whole_numbers<Device>& numbers_;
  extent_t rows_, width_;
  bool spread_ = false;
  buffer<std::int32_t, Device> places_;
  const std::int32_t *lengths_ = nullptr, *from_ = nullptr, *back_ = nullptr;
  program_input<float> input_[field_count];
  std::vector<buffer<float, Device>> spread_fields_;
  buffer<float, Device> live_;
};

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
