// The rows of a batch on a device: rectangular, with the slots that count, whatever the layout of the fields.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "rlcore/device/losses/loss_device.hpp"
#include "rlcore/objective/loop/detail/rows.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace device_losses {

/// Host numbers in the memory of a device.
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

/// Fields as a program reads them, [rows, width], and the way back of slopes. Packed rows are spread out to the length
/// of the longest, one row per row, and gathered again.
template <class Device>
class row_arrays {
 public:
  /// `b` holds addresses of the device. `reads` are the fields that programs will read.
  row_arrays(Device& device, const token_loop::prepared_batch<float>& b, field reads)
      : device_(device), batch_(b), rows_(b.shape.rows), width_(b.shape.width) {
    if (b.shape.packed) {
      width_ = 0;
      for (extent_t i = 0; i < rows_; ++i) width_ = std::max(width_, b.length(i));
    }
    spread_ = b.shape.packed && rows_ * width_ != b.shape.width;
    upload_places();
    for (std::size_t f = 0; f < field_count; ++f)
      if (contains(reads, field_at(f)) && field_at(f) != field::gathered) show(f);
    find_live();
  }

  extent_t rows() const noexcept { return rows_; }
  extent_t width() const noexcept { return width_; }
  extent_t slots() const noexcept { return rows_ * width_; }
  /// The inputs of a program over all slots, of which those count that are live; without results.
  program_arrays<float> tokens() const {
    program_arrays<float> a;
    a.rows = rows_, a.width = width_;
    std::copy_n(input_, field_count, a.input[0]);
    a.live = {live_.data(), width_, 1};
    return a;
  }
  /// One value per row of a field.
  program_input<float> per_row(std::size_t f) const noexcept { return {input_[f].data, input_[f].row_stride, 0}; }
  /// live[rows, width], 1 or 0.
  buffer<float, Device>& live() noexcept { return live_; }

  /// Where slopes by field f may be computed: the gradient itself, or `other` [rows, width].
  float* target(std::size_t f, float* other) const noexcept {
    return spread_ || batch_.adds ? other : batch_.output[f].data;
  }
  /// Slopes by field f become the gradient, or are added to it; 0 for slots that are not live.
  void write(std::size_t f, const float* slopes) {
    float* to = batch_.output[f].data;
    if (slopes == to) return;
    const extent_t n = spread_ ? batch_.shape.width : slots();
    if (!spread_) return device_.add(to, to, slopes, n);
    if (!batch_.adds) return device_.gather_rows(to, slopes, slots(), back_, n, 1);
    const auto part = room(device_, n);
    device_.gather_rows(part_data(part), slopes, slots(), back_, n, 1);
    device_.add(to, to, part.data(), n);
  }
  /// Gradients that no piece produces are 0, unless they are added to.
  void zero_others(field produced) {
    const auto n = static_cast<std::size_t>(batch_.shape.packed ? batch_.shape.width : slots());
    for (std::size_t f = 0; f < field_count; ++f)
      if (batch_.output[f].data != nullptr && !contains(produced, field_at(f)) && !batch_.adds)
        device_.fill_zero(batch_.output[f].data, n * sizeof(float));
  }

 private:
  static float* part_data(const buffer<float, Device>& b) { return const_cast<float*>(b.data()); }

  /// Lengths, the token of every slot and the slot of every token, by one upload.
  void upload_places() {
    const bool has_lengths = batch_.lengths.present() || spread_;
    if (!has_lengths) return;
    std::vector<std::int32_t> all;
    for (extent_t i = 0; i < rows_; ++i) all.push_back(static_cast<std::int32_t>(batch_.length(i)));
    if (spread_) {
      for (extent_t i = 0; i < rows_; ++i)
        for (extent_t t = 0; t < width_; ++t)
          all.push_back(t < batch_.length(i) ? static_cast<std::int32_t>(batch_.offset(i) + t) : 0);
      for (extent_t i = 0; i < rows_; ++i)
        for (extent_t t = 0; t < batch_.length(i); ++t) all.push_back(static_cast<std::int32_t>(i * width_ + t));
    }
    places_ = uploaded(device_, all);
    lengths_ = places_.data();
    if (spread_) from_ = lengths_ + rows_, back_ = from_ + slots();
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
      device_.gather_rows(to, x.data, batch_.shape.width, from_, slots(), 1);
      input_[f] = {to, width_, 1};
    }
  }
  void find_live() {
    live_ = room(device_, slots());
    mask_elements mask;
    if (batch_.mask.present())
      mask = {batch_.mask.data, batch_.shape.packed ? batch_.shape.width : slots(), batch_.mask.bytes,
              batch_.mask.floating};
    device_.live_slots(live_.data(), mask, lengths_, from_, rows_, width_);
  }

  Device& device_;
  const token_loop::prepared_batch<float>& batch_;
  extent_t rows_, width_;
  bool spread_ = false;
  buffer<std::int32_t, Device> places_;
  const std::int32_t *lengths_ = nullptr, *from_ = nullptr, *back_ = nullptr;
  program_input<float> input_[field_count];
  std::vector<buffer<float, Device>> spread_fields_;
  buffer<float, Device> live_;
};

}  // namespace device_losses
RLCORE_ALGORITHM_END
RLCORE_END
