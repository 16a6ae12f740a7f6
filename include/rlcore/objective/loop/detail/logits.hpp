// From the inputs of a logits objective to pointers and strides; every mismatch is reported here, before the loop.
#pragma once

#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/core/as_written.hpp"
#include "rlcore/core/order.hpp"
#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/objective/loop/detail/shape.hpp"
#include "rlcore/objective/vocabulary/logits_piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace logits_loop {

/// Requirements of an objective's pieces on the inputs.
struct logits_shape {
  logits_field reads = logits_field::none;
  extent_t labels = std::numeric_limits<extent_t>::max();  // labels are below this and the vocabulary's size
  extent_t targets = -1;                                   // length of a soft label; -1: any
  bool shares = false;                                     // entries of the teacher are those of the student
};

/// Everything resolved and checked.
template <class T>
struct prepared_logits {
  const logits_batch<T>* batch = nullptr;
  extent_t entries = 0, rows = 0;
  extent_t shared = 0;  // entries of the vocabulary that pieces with a teacher see

  extent_t row_begin(extent_t i) const noexcept {
    return batch->offsets.present() ? static_cast<extent_t>(batch->offsets[i]) : i * entries;
  }
  extent_t row_end(extent_t i) const noexcept { return row_begin(i + 1); }
  /// The row of `logits` that entry i is about.
  extent_t position(extent_t i) const noexcept {
    return batch->positions.present() ? static_cast<extent_t>(batch->positions[i]) : i;
  }
  bool live(extent_t i) const noexcept {
    const token_mask& m = batch->mask;
    return !m.present() || token_loop::count_live(m, m.data + i * token_loop::mask_step(m), 1) != 0;
  }
  std::int64_t live_in_row(extent_t i) const noexcept {
    const token_mask& m = batch->mask;
    const extent_t begin = row_begin(i), length = row_end(i) - begin;
    if (!m.present()) return length;
    return token_loop::count_live(m, m.data + begin * token_loop::mask_step(m), static_cast<std::size_t>(length));
  }
  entry_list support(extent_t i) const noexcept {
    const entry_lists& s = batch->support;
    const extent_t size = s.wide ? 8 : 4;
    if (s.vector) {
      const extent_t first = static_cast<extent_t>(s.offsets[i]), last = static_cast<extent_t>(s.offsets[i + 1]);
      return {s.data + first * s.stride[0] * size, last - first, s.stride[0], s.wide};
    }
    return {s.data + i * s.stride[0] * size, s.shape[1], s.stride[1], s.wide};
  }
  value_list<T> support_logp(extent_t i) const noexcept {
    const position_matrix<const T>& p = batch->support_logp;
    if (p.vector) {
      const extent_t first = static_cast<extent_t>(batch->support.offsets[i]);
      return {p.data + first * p.stride[0], static_cast<extent_t>(batch->support.offsets[i + 1]) - first, p.stride[0]};
    }
    return {p.row(i), p.shape[1], p.stride[1]};
  }
};

inline void expect_entries(std::string_view name, extent_t is, extent_t entries, bool selected) {
  if (is != entries)
    throw std::invalid_argument("rlcore: " + std::string(name) + " are [" + std::to_string(is) + "], " +
                                (selected ? "the positions are [" : "the logits have positions [") +
                                std::to_string(entries) + "]");
}

/// Throws where the objective reads an input that the batch lacks, and where the logits are no matrix.
template <class T>
void expect_inputs(const logits_batch<T>& b, logits_field reads) {
  const bool present[logits_field_count] = {b.labels.present(),       b.teacher.present(), b.support.present(),
                                            b.support_logp.present(), b.targets.present(), b.weight.present()};
  for (std::size_t f = 0; f < logits_field_count; ++f)
    if (contains(reads, static_cast<logits_field>(1u << f)) && !present[f])
      throw std::invalid_argument("rlcore: the objective reads " + std::string(logits_field_names[f]) +
                                  ", but the batch has none; set logits_batch::" + std::string(logits_field_names[f]));
  if (!b.logits.present() || b.logits.vector)
    throw std::invalid_argument("rlcore: logits_batch::logits must be a matrix [positions, vocabulary]");
}

/// The entries of the vocabulary that logits and teacher share. Throws where the two do not fit.
template <class T>
extent_t entries_of_teacher(const logits_batch<T>& b, bool shares) {
  const auto is = [&] { return to_string<2>(b.logits.shape); };
  const extent_t smaller = detail::least(b.logits.shape[1], b.teacher.shape[1]);
  if (b.teacher.vector || b.teacher.shape[0] != b.logits.shape[0])
    throw std::invalid_argument("rlcore: the teacher's logits are " + to_string<2>(b.teacher.shape) +
                                ", the logits are " + is());
  if (b.common < 0 || b.common > smaller || (shares && b.common == 0 && b.teacher.shape[1] != b.logits.shape[1]))
    throw std::invalid_argument("rlcore: the teacher's logits are " + to_string<2>(b.teacher.shape) +
                                ", the logits are " + is() + ", and logits_batch::common is " +
                                std::to_string(b.common) +
                                "; set it to the number of leading entries that both vocabularies share");
  return b.common != 0 ? b.common : b.logits.shape[1];
}

/// The number of sequences. Throws where the offsets are not those of `entries` positions.
template <class T>
extent_t rows_by_offsets(const logits_batch<T>& b, extent_t entries, bool selected) {
  const extent_t rows = b.offsets.size - 1;
  if (rows < 0 || b.offsets[0] != 0)
    throw std::invalid_argument("rlcore: offsets must have rows + 1 entries and start at 0");
  for (extent_t i = 0; i < rows; ++i)
    if (b.offsets[i + 1] < b.offsets[i])
      throw std::invalid_argument("rlcore: offsets must not decrease, but offsets[" + std::to_string(i + 1) + "] = " +
                                  std::to_string(b.offsets[i + 1]) + " follows " + std::to_string(b.offsets[i]));
  expect_entries("tokens by the offsets", static_cast<extent_t>(b.offsets[rows]), entries, selected);
  return rows;
}

/// Throws where the mask or an input that is read has not one value or list for each of `entries` positions.
template <class T>
void expect_shapes(const logits_batch<T>& b, const logits_shape& wanted, extent_t entries, bool selected) {
  const auto reads_it = [&](logits_field f) { return contains(wanted.reads, f); };
  if (b.mask.present()) {
    if (b.mask.matrix)
      throw std::invalid_argument("rlcore: the mask is " + to_string<2>(b.mask.shape) +
                                  ", expected one value per position, [" + std::to_string(entries) + "]");
    expect_entries("mask values", b.mask.shape[0], entries, selected);
  }
  if (reads_it(logits_field::label)) expect_entries("labels", b.labels.size, entries, selected);
  if (reads_it(logits_field::weight)) expect_entries("weights", b.weight.shape[0], entries, selected);
  if (reads_it(logits_field::target)) expect_entries("targets", b.targets.shape[0], entries, selected);
  if (reads_it(logits_field::target) && wanted.targets >= 0 && b.targets.shape[1] != wanted.targets)
    throw std::invalid_argument("rlcore: targets are " + to_string<2>(b.targets.shape) + ", expected " +
                                std::to_string(wanted.targets) + " for each position");
  if (reads_it(logits_field::support)) {
    if (b.support.vector) {
      expect_entries("lists by the support's offsets", b.support.offsets.size - 1, entries, selected);
      expect_entries("support entries", b.support.shape[0], static_cast<extent_t>(b.support.offsets[entries]), true);
    } else {
      expect_entries("support lists", b.support.shape[0], entries, selected);
    }
  }
  if (reads_it(logits_field::support_logp) &&
      (b.support_logp.vector != b.support.vector || b.support_logp.shape != b.support.shape))
    throw std::invalid_argument("rlcore: support_logp is " + to_string<2>(b.support_logp.shape) + ", the support is " +
                                to_string<2>(b.support.shape));
}

/// Throws where a position, or a label or an entry of the support that will be read, is out of range.
template <class T>
void expect_values(const prepared_logits<T>& p, const logits_shape& wanted) {
  const logits_batch<T>& b = *p.batch;
  const auto is = [&] { return to_string<2>(b.logits.shape); };
  const bool reads_label = contains(wanted.reads, logits_field::label),
             reads_support = contains(wanted.reads, logits_field::support);
  const extent_t labels = detail::least(wanted.labels, b.logits.shape[1]);
  for (extent_t i = 0; i < p.entries; ++i) {
    if (b.positions.present()) {
      const std::int64_t at = b.positions[i];
      if (at < 0 || at >= b.logits.shape[0] || (i > 0 && at <= b.positions[i - 1]))
        throw std::invalid_argument("rlcore: positions[" + std::to_string(i) + "] = " + std::to_string(at) +
                                    (i > 0 ? " after " + std::to_string(b.positions[i - 1]) : "") +
                                    ": expected increasing positions of the logits " + is());
    }
    if ((!reads_label && !reads_support) || !p.live(i)) continue;
    if (reads_label && (b.labels[i] < 0 || b.labels[i] >= labels))
      throw std::invalid_argument("rlcore: labels[" + std::to_string(i) + "] = " + std::to_string(b.labels[i]) +
                                  ", the logits are " + is() + ", expected 0 ... " + std::to_string(labels - 1) +
                                  "; a position without label is masked or left out of the positions");
    if (reads_support) {
      const entry_list s = p.support(i);
      for (extent_t k = 0; k < s.size; ++k)
        if (s[k] < 0 || s[k] >= b.logits.shape[1])
          throw std::invalid_argument("rlcore: the support of position " + std::to_string(i) + " has " +
                                      std::to_string(s[k]) + ", which is no entry of the logits " + is());
    }
  }
}

template <class T>
prepared_logits<T> prepare(const logits_batch<T>& b, const logits_shape& wanted) {
  require_arithmetic_as_written();
  expect_inputs(b, wanted.reads);
  const bool selected = b.positions.present();
  prepared_logits<T> p;
  p.batch = &b;
  p.entries = selected ? b.positions.size : b.logits.shape[0];
  p.shared = contains(wanted.reads, logits_field::teacher) ? entries_of_teacher(b, wanted.shares) : b.logits.shape[1];
  p.rows = b.offsets.present() ? rows_by_offsets(b, p.entries, selected) : 1;
  expect_shapes(b, wanted, p.entries, selected);
  expect_values(p, wanted);
  return p;
}

}  // namespace logits_loop

RLCORE_ALGORITHM_END
RLCORE_END
