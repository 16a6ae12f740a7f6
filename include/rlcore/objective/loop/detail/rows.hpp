// All rows of a batch: weight, pieces, gradient, report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "rlcore/core/order.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/detail/shape.hpp"
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
  bool wants_gradients = false, adds = false;
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

/// Stages each row for a row_loop and writes its slopes back. It knows an objective only by the fields it reads and
/// writes and by the address of its loop, so it is compiled once per element type, not once per objective.
template <class T>
class row_driver {
 public:
  using kernel = void (*)(const void* objective, const lane_pointers<T>&, std::size_t first, std::size_t packs,
                          void* sums);

  /// A `silent` driver writes no gradient, whatever the batch requests.
  row_driver(const prepared_batch<T>& batch, field reads, field writes, kernel run, const void* objective, void* sums,
             bool silent = false) noexcept
      : batch_(batch), run_(run), objective_(objective), sums_(sums), writes_(batch.wants_gradients && !silent) {
    detail::fill(all_live_, all_live_ + width, mask_lane<T>(-1));
    for (std::size_t f = 0; f < field_count; ++f) {
      const bool write = contains(writes, field_at(f));
      if (field_at(f) == field::gathered) {
        at_.input[f] = input_[f];  // the same pack again and again
      } else if (contains(reads, field_at(f))) {
        at_.input_step[f] = batch.input[f].per_token ? width : 0;
        direct_ &= !batch.input[f].per_token || batch.input[f].token_stride == 1;
        (batch.input[f].per_token ? token_inputs_ : row_inputs_).add(f);
      }
      if (write && writes_) {
        at_.output_step[f] = width;
        direct_ &= batch.output[f].token_stride == 1;
        outputs_.add(f);
      } else if (write) {
        at_.output[f] = output_[f];  // with step 0: never read
      } else if (batch.output[f].data && !batch.adds && !silent) {
        zeros_.add(f);
      }
    }
    // Masks whose elements are as wide as a lane are read where they are.
    direct_mask_ = batch.mask.bytes == sizeof(T) && mask_step(batch.mask) == sizeof(T);
    direct_ &= (direct_mask_ || !batch.mask.present()) && !batch.adds;
  }

  /// Sets field::gathered for the next row.
  void show_gathered(T x) noexcept { detail::fill(input_[gathered_index], input_[gathered_index] + width, x); }

  /// Live tokens of row i.
  std::int64_t live(extent_t i) const noexcept {
    const extent_t length = batch_.length(i);
    if (!batch_.mask.present()) return length;
    return count_live(batch_.mask, mask_row(batch_.mask, i, batch_.offset(i)), static_cast<std::size_t>(length));
  }

  /// Runs the loop over row i and writes weight times the slopes, 0 for slots that are not live.
  void row(extent_t i, T weight) noexcept {
    at_.weight = weight;
    open_row(i);
    const std::size_t length = static_cast<std::size_t>(batch_.length(i));
    for (std::size_t begin = 0; begin < length;) {
      const std::size_t left = length - begin, whole_packs = left / width * width;
      const std::size_t count = left < width ? left : direct_ || left < staged ? whole_packs : staged;
      segment(begin, count);
      begin += count;
    }
    if (writes_) zero_gradients(i, batch_.length(i));
  }

  /// Writes (or adds) `slope` to every live slot of the row in the only gradient; all other slots become 0.
  void fill(extent_t i, T slope) noexcept {
    zero_gradients(i, batch_.length(i));
    if (!writes_) return;
    const std::size_t f = *outputs_.begin();
    T* to = batch_.output[f].row(i, batch_.offset(i));
    const extent_t step = batch_.output[f].token_stride, length = batch_.length(i);
    if (!batch_.mask.present() && !batch_.adds) {
      for (extent_t t = 0; t < length; ++t) to[t * step] = slope;
    } else if (!batch_.mask.present()) {
      for (extent_t t = 0; t < length; ++t) to[t * step] += slope;
    } else if (step == 1 && direct_mask_ && !batch_.adds) {
      fill_packs(to, mask_row(batch_.mask, i, batch_.offset(i)), static_cast<std::size_t>(length), slope);
    } else {
      const std::byte* mask = mask_row(batch_.mask, i, batch_.offset(i));
      const extent_t mask_stride = mask_step(batch_.mask);
      with_mask_reader(batch_.mask, [&](auto live) {
        for (extent_t t = 0; t < length; ++t) {
          const bool here = live(mask + t * mask_stride);
          to[t * step] = batch_.adds ? to[t * step] + (here ? slope : T(0)) : here ? slope : T(0);
        }
      });
    }
  }

  /// Zeros the gradients of row i from slot `from` on; those that no piece produces are zero everywhere. With `add`,
  /// they keep their values.
  void zero_gradients(extent_t i, extent_t from) noexcept {
    if (batch_.adds) return;
    const auto zero = [&](std::size_t f, extent_t first) {
      const extent_t step = batch_.output[f].token_stride, slots = batch_.slots(i);
      T* to = batch_.output[f].row(i, batch_.offset(i));
      for (extent_t t = first; t < slots; ++t) to[t * step] = T(0);
    };
    for (const std::size_t f : outputs_) zero(f, from);
    for (const std::size_t f : zeros_) zero(f, 0);
  }

 private:
  static constexpr std::size_t width = pack<T>::lanes, staged = width * staged_packs;

  /// A few field numbers.
  struct field_list {
    std::size_t at[field_count], count = 0;
    void add(std::size_t f) noexcept { at[count++] = f; }
    const std::size_t* begin() const noexcept { return at; }
    const std::size_t* end() const noexcept { return at + count; }
  };

  /// Finds the row's memory.
  void open_row(extent_t i) noexcept {
    const extent_t offset = batch_.offset(i);
    for (const std::size_t f : token_inputs_) source_[f] = batch_.input[f].row(i, offset);
    for (const std::size_t f : row_inputs_) {
      detail::fill(input_[f], input_[f] + width, *batch_.input[f].row(i, offset));
      at_.input[f] = input_[f];
    }
    for (const std::size_t f : outputs_) target_[f] = batch_.output[f].row(i, offset);
    mask_ = batch_.mask.present() ? mask_row(batch_.mask, i, offset) : nullptr;
  }

  /// `count` slots from `begin`: whole packs, or less than one pack.
  void segment(std::size_t begin, std::size_t count) noexcept {
    const std::size_t packs = (count + width - 1) / width, padded = packs * width;
    const bool whole = count == padded;
    const extent_t first = static_cast<extent_t>(begin);
    for (const std::size_t f : token_inputs_) {
      const extent_t stride = batch_.input[f].token_stride;
      const T* from = source_[f] + first * stride;
      const bool in_place = whole && stride == 1;
      if (!in_place) stage_values(from, stride, count, padded, input_[f]);
      at_.input[f] = in_place ? from : input_[f];
    }
    for (const std::size_t f : outputs_)
      at_.output[f] = whole && batch_.output[f].token_stride == 1 && !batch_.adds ? target_[f] + begin : output_[f];
    open_mask(begin, count, padded);
    run_(objective_, at_, begin / width, packs, sums_);
    for (const std::size_t f : outputs_) {
      if (at_.output[f] != output_[f]) continue;
      const extent_t stride = batch_.output[f].token_stride;
      T* to = target_[f] + first * stride;
      if (batch_.adds && stride == 1) {
        for (std::size_t k = 0; k < count; ++k) to[k] += output_[f][k];
        continue;
      }
      for (std::size_t k = 0; k < count; ++k) {
        T& slot = to[static_cast<extent_t>(k) * stride];
        slot = batch_.adds ? slot + output_[f][k] : output_[f][k];
      }
    }
  }

  /// `slope` where the mask is live, else 0.
  void fill_packs(T* to, const std::byte* mask, std::size_t length, T slope) const noexcept {
    typename lane_types<T>::integers m;
    const mask_lane<T> bits = mask_bits();
    std::size_t t = 0;
    for (; t + width <= length; t += width) {
      std::memcpy(&m, mask + t * sizeof(T), sizeof(m));
      store(to + t, choose(lane_mask<T>{(m & bits) != 0}, pack<T>(slope), pack<T>(T(0))));
    }
    for (; t < length; ++t) {
      mask_lane<T> one;
      std::memcpy(&one, mask + t * sizeof(T), sizeof(one));
      to[t] = (one & bits) != 0 ? slope : T(0);
    }
  }

  /// What makes a mask element as wide as a lane live: any bit, of floating values any but the sign.
  mask_lane<T> mask_bits() const noexcept {
    return batch_.mask.floating ? std::numeric_limits<mask_lane<T>>::max() : mask_lane<T>(-1);
  }

  void open_mask(std::size_t begin, std::size_t count, std::size_t padded) noexcept {
    const bool whole = count == padded;
    at_.mask_step = width * sizeof(T);
    at_.mask_bits = -1;
    if (!mask_ && whole) {
      at_.mask_step = 0;
      at_.mask = reinterpret_cast<const std::byte*>(all_live_);
    } else if (mask_ && whole && direct_mask_) {
      at_.mask = mask_ + begin * sizeof(T);
      at_.mask_bits = mask_bits();
    } else {
      if (mask_)
        stage_mask<T>(batch_.mask, mask_ + static_cast<extent_t>(begin) * mask_step(batch_.mask), count, padded,
                      staged_mask_);
      else
        for (std::size_t k = 0; k < padded; ++k) staged_mask_[k] = -mask_lane<T>(k < count);
      at_.mask = reinterpret_cast<const std::byte*>(staged_mask_);
    }
  }

  const prepared_batch<T>& batch_;
  const kernel run_;
  const void* const objective_;
  void* const sums_;
  const bool writes_;
  field_list token_inputs_, row_inputs_, outputs_, zeros_;
  lane_pointers<T> at_{};
  const T* source_[field_count] = {};
  T* target_[field_count] = {};
  const std::byte* mask_ = nullptr;
  bool direct_ = true, direct_mask_ = true;  // whole packs can be read and written where they lie
  alignas(64) T input_[field_count][staged];
  alignas(64) T output_[field_count][staged];
  alignas(64) mask_lane<T> staged_mask_[staged];
  alignas(64) mask_lane<T> all_live_[width];
};

/// Gathers one number per row: the sum or mean of a score over its live tokens.
template <class Gather, class T>
class row_gatherer {
  using score = typename Gather::score;
  using loop = row_loop<score, T, false>;

 public:
  static constexpr field reads = score::reads;
  row_gatherer(const score& gathered, const prepared_batch<T>& batch) noexcept
      : score_(gathered), driver_(batch, reads, wrt_of<score>(), &loop::erased_run, &score_, &sums_, true) {}

  struct result {
    double value;       ///< 0 for a row without live tokens
    std::int64_t live;  ///< live tokens of the row
  };
  result operator()(extent_t i) noexcept {
    sums_.clear();
    driver_.row(i, T(1));
    const auto live = static_cast<std::int64_t>(sum_elements(sums_.live));
    const double sum = live == 0 ? 0.0 : sums_.total(0);
    return {Gather::averages && live > 0 ? sum / static_cast<double>(live) : sum, live};
  }

 private:
  score score_;
  typename loop::sums sums_;
  row_driver<T> driver_;
};

template <class T>
class row_gatherer<no_gather, T> {
 public:
  static constexpr field reads = field::none;
  row_gatherer(no_gather, const prepared_batch<T>&) noexcept {}
};

/// The score that the pieces of an objective gather, from the first of them that gathers anything.
template <class Objective, std::size_t Index = 0>
constexpr auto gathered_score(const Objective& objective) noexcept {
  if constexpr (Index == piece_count<Objective>)
    return no_gather{};
  else if constexpr (std::is_same_v<gathers_of<piece_type<Index, Objective>>, no_gather>)
    return gathered_score<Objective, Index + 1>(objective);
  else
    return score_of(piece_at<Index>(objective));
}

/// Adds row after row to a report.
template <class Objective, class T>
class row_evaluator {
  using loop = row_loop<Objective, T>;
  using shape = structure<Objective>;
  using gather = typename shape::gathers;

 public:
  using report_type = report<shape::pieces, shape::monitors>;
  /// The required fields.
  static constexpr field reads = shape::reads | row_gatherer<gather, T>::reads;

  row_evaluator(const Objective& objective, const prepared_batch<T>& batch) noexcept
      : gather_(gathered_score(objective), batch),
        driver_(batch, shape::reads, shape::outputs, &loop::erased_run, &objective, &sums_) {}

  template <class Aggregation>
  void operator()(extent_t i, const Aggregation& aggregation, const global_counts& step, report_type& out) noexcept {
    // Count first if the weight depends on the counts; otherwise the pass itself counts.
    std::int64_t live = -1;
    if constexpr (!std::is_same_v<gather, no_gather>) {
      const auto gathered = gather_(i);
      live = gathered.live;
      driver_.show_gathered(static_cast<T>(gathered.value));
    } else if constexpr (!ignores_length<Aggregation>) {
      live = driver_.live(i);
    }
    out.rows += 1;
    const double weight = live == 0 ? 0.0 : aggregation.weight(row_info{live, i}, step);
    if (weight == 0) return driver_.zero_gradients(i, 0);
    sums_.clear();
    driver_.row(i, static_cast<T>(weight));
    live = static_cast<std::int64_t>(sum_elements(sums_.live));
    if (live == 0) return;
    out.tokens += live;
    out.sequences += 1;
    for (std::size_t p = 0, m = 0, slot = 0; p < shape::pieces; ++p) {
      const double sum = sums_.total(slot++);
      out.piece[p].aggregated.add(weight * sum);
      out.piece[p].total.add(sum);
      for (std::size_t k = 0; k < shape::monitors_per_piece[p]; ++k) out.monitor[m++].total.add(sums_.total(slot++));
    }
  }

 private:
  typename loop::sums sums_;
  [[no_unique_address]] row_gatherer<gather, T> gather_;
  row_driver<T> driver_;
};

}  // namespace token_loop

RLCORE_ALGORITHM_END
RLCORE_END
