// All rows of a batch: weight, pieces, gradient, report.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlcore/objective/aggregation/aggregation.hpp"
#include "rlcore/objective/loop/detail/shape.hpp"
#include "rlcore/objective/loop/detail/stage.hpp"
#include "rlcore/objective/loop/report.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace token_loop {

/// Everything resolved and checked; lives on the stack of `evaluate` and is only read by the threads.
template <class T>
struct prepared_batch {
  detail::row_shape shape;
  detail::row_source<const T> input[field_count];
  detail::row_source<T> output[field_count];
  bool wants_gradients = false;
  token_mask mask;
  integer_list lengths, offsets;

  extent_t offset(extent_t i) const noexcept { return shape.packed ? static_cast<extent_t>(offsets[i]) : -1; }
  extent_t length(extent_t i) const noexcept {
    if (shape.packed) return static_cast<extent_t>(offsets[i + 1] - offsets[i]);
    return lengths.present() ? static_cast<extent_t>(lengths[i]) : shape.width;
  }
  /// Slots of row i that belong to the caller's arrays, the ones past its length included.
  extent_t slots(extent_t i) const noexcept { return shape.packed ? length(i) : shape.width; }
};

template <class Objective, class T>
class row_evaluator {
  using loop = row_loop<Objective, T>;
  using shape = structure<Objective>;
  static constexpr std::size_t width = loop::width, staged = width * staged_packs;

 public:
  using report_type = report<shape::pieces, shape::monitors>;

  row_evaluator(const Objective& objective, const prepared_batch<T>& batch) noexcept
      : objective_(objective), batch_(batch) {
    for (auto& l : all_live_) l = -1;
  }

  /// Adds row i to the report and writes its gradient.
  template <class Aggregation>
  void operator()(extent_t i, const Aggregation& aggregation, const global_counts& step, report_type& out) noexcept {
    const extent_t offset = batch_.offset(i), length = batch_.length(i);
    const std::byte* mask = batch_.mask.present() ? mask_row(batch_.mask, i, offset) : nullptr;
    const std::int64_t live =
        mask ? count_live(batch_.mask, mask, static_cast<std::size_t>(length)) : static_cast<std::int64_t>(length);
    out.rows += 1;
    if (live == 0) return zero_gradients(i, offset, 0);
    out.tokens += live;
    out.sequences += 1;
    const double weight = aggregation.weight(row_info{live}, step);
    sums_.clear();
    run(i, offset, static_cast<std::size_t>(length), mask, static_cast<T>(weight));
    zero_gradients(i, offset, length);
    for (std::size_t s = 0; s < shape::slots; ++s) sums_.wide[s].add(sums_.partial[s]);
    for (std::size_t p = 0, m = 0; p < shape::pieces; ++p) {
      const double sum = sums_.wide[shape::slot(p)].total();
      out.piece[p].aggregated.add(weight * sum);
      out.piece[p].total.add(sum);
      for (std::size_t k = 0; k < shape::monitors_per_piece[p]; ++k, ++m)
        out.monitor[m].total.add(sums_.wide[shape::slot(p) + 1 + k].total());
    }
  }

 private:
  static constexpr bool reads(std::size_t f) noexcept { return contains(shape::reads, field_at(f)); }
  static constexpr bool writes(std::size_t f) noexcept { return contains(shape::outputs, field_at(f)); }

  void run(extent_t i, extent_t offset, std::size_t length, const std::byte* mask, T weight) noexcept {
    lane_pointers<T> at{};
    at.weight = weight;
    const T* source[field_count] = {};
    T* target[field_count] = {};
    bool direct = true;
    for (std::size_t f = 0; f < field_count; ++f) {
      if (reads(f)) {
        source[f] = batch_.input[f].row(i, offset);
        at.keep[f] = batch_.input[f].per_token ? ~std::size_t{0} : 0;
        if (!batch_.input[f].per_token) {
          for (std::size_t k = 0; k < width; ++k) input_[f][k] = *source[f];
          at.input[f] = input_[f];
        } else {
          direct &= batch_.input[f].token_stride == 1;
        }
      }
      if (writes(f)) {
        at.keep_output[f] = batch_.wants_gradients ? ~std::size_t{0} : 0;
        at.output[f] = output_[f];
        if (batch_.wants_gradients) {
          target[f] = batch_.output[f].row(i, offset);
          direct &= batch_.output[f].token_stride == 1;
        }
      }
    }
    // Masks whose elements are as wide as a lane are read where they are.
    const bool direct_mask = !mask || (batch_.mask.bytes == sizeof(T) && mask_step(batch_.mask) == sizeof(T));
    at.keep_mask = mask ? ~std::size_t{0} : 0;
    direct &= direct_mask;

    for (std::size_t begin = 0; begin < length;) {
      const std::size_t left = length - begin;
      const std::size_t count = left < width    ? left
                                : direct        ? left / width * width
                                : left < staged ? left / width * width
                                                : staged;
      const std::size_t packs = (count + width - 1) / width, padded = packs * width;
      const bool whole = count == padded;
      for (std::size_t f = 0; f < field_count; ++f) {
        if (reads(f) && batch_.input[f].per_token) {
          const extent_t stride = batch_.input[f].token_stride;
          const T* from = source[f] + static_cast<extent_t>(begin) * stride;
          if (whole && stride == 1) {
            at.input[f] = from;
          } else {
            stage_values(from, stride, count, padded, input_[f]);
            at.input[f] = input_[f];
          }
        }
        if (writes(f) && batch_.wants_gradients)
          at.output[f] = whole && batch_.output[f].token_stride == 1 ? target[f] + begin : output_[f];
      }
      at.mask_bits = -1;
      if (!mask) {
        if (whole) {
          at.mask = reinterpret_cast<const typename lane_types<T>::integers*>(all_live_);
          at.keep_mask = 0;
        } else {
          for (std::size_t k = 0; k < padded; ++k) mask_[k] = -mask_lane<T>(k < count);
          at.mask = reinterpret_cast<const typename lane_types<T>::integers*>(mask_);
          at.keep_mask = ~std::size_t{0};
        }
      } else if (whole && direct_mask) {
        at.mask = reinterpret_cast<const typename lane_types<T>::integers*>(mask + begin * sizeof(T));
        if (batch_.mask.floating) at.mask_bits = std::numeric_limits<mask_lane<T>>::max();
      } else {
        stage_mask<T>(batch_.mask, mask + static_cast<extent_t>(begin) * mask_step(batch_.mask), count, padded, mask_);
        at.mask = reinterpret_cast<const typename lane_types<T>::integers*>(mask_);
      }
      loop::run(objective_, at, begin / width, packs, sums_);
      if (batch_.wants_gradients)
        for (std::size_t f = 0; f < field_count; ++f)
          if (writes(f) && at.output[f] == output_[f]) {
            const extent_t stride = batch_.output[f].token_stride;
            T* to = target[f] + static_cast<extent_t>(begin) * stride;
            for (std::size_t k = 0; k < count; ++k) to[static_cast<extent_t>(k) * stride] = output_[f][k];
          }
      begin += count;
    }
  }

  /// Zeros the gradient of row i from slot `from` on; gradients that no piece produces are zero everywhere.
  void zero_gradients(extent_t i, extent_t offset, extent_t from) noexcept {
    if (!batch_.wants_gradients) return;
    for (std::size_t f = 0; f < field_count; ++f) {
      if (!batch_.output[f].data) continue;
      T* to = batch_.output[f].row(i, offset);
      for (extent_t t = writes(f) ? from : 0; t < batch_.slots(i); ++t) to[t * batch_.output[f].token_stride] = T(0);
    }
  }

  const Objective& objective_;
  const prepared_batch<T>& batch_;
  typename loop::sums sums_;
  alignas(64) T input_[field_count][staged];
  alignas(64) T output_[field_count][staged];
  alignas(64) mask_lane<T> mask_[staged];
  alignas(64) mask_lane<T> all_live_[width];
};

}  // namespace token_loop
RLCORE_ALGORITHM_END
RLCORE_END
