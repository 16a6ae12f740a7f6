// From named fields to pointers and strides; every mismatch is reported here, once per call, before the loop.
#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/objective/piece/field.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace detail {

template <class T>
using input_fields = std::array<const token_field<const T>*, field_count>;

/// The batch's inputs by the number of their field; field::gathered is none.
template <class T>
input_fields<T> inputs_of(const token_batch<T>& b) noexcept {
  return {&b.logp,    &b.old_logp, &b.ref_logp,  &b.rollout_logp, &b.advantage, &b.weight,
          &b.entropy, &b.value,    &b.old_value, &b.target,       &b.selected,  nullptr};
}

/// The extent of a batch. Packed rows: width is the number of all tokens.
struct row_shape {
  extent_t rows = 0, width = 0;
  bool packed = false;
  std::string_view model;  // the field whose shape the others must have; none if packed

  /// "logp is [4, 7]", for messages.
  std::string text() const {
    if (packed) return "the offsets describe " + std::to_string(rows) + " rows of " + std::to_string(width) + " tokens";
    return std::string(model) + " is " + to_string<2>({rows, width});
  }
};

/// Element t of row i is data[(packed ? offset_i * token_stride : i * row_stride) + t * token_stride].
template <class T>
struct row_source {
  T* data = nullptr;
  extent_t row_stride = 0, token_stride = 0;
  bool per_token = false;

  T* row(extent_t i, extent_t offset) const noexcept {
    return data + (per_token && offset >= 0 ? offset * token_stride : i * row_stride);
  }
};

template <class T>
std::string form_text(const token_field<T>& f) {
  using kind = typename token_field<T>::kind;
  if (f.form == kind::matrix) return to_string<2>(f.shape);
  return to_string<1>({f.shape[0]}) + (f.form == kind::row ? " (one value per row)" : "");
}

[[noreturn]] inline void bad_shape(std::string_view name, const std::string& is, const row_shape& s,
                                   std::string_view hint = "", bool output = false) {
  throw std::invalid_argument((output ? "rlcore: the gradient by " : "rlcore: ") + std::string(name) + " is " + is +
                              ", " + s.text() + std::string(hint));
}

template <class T>
row_source<T> resolve(std::string_view name, const token_field<T>& f, const row_shape& s, bool output) {
  using kind = typename token_field<T>::kind;
  if (s.packed) {
    if (f.form == kind::row && f.shape[0] == s.rows && !output) return {f.data, f.stride[0], 0, false};
    if (f.form == kind::vector && f.shape[0] == s.width) return {f.data, 0, f.stride[0], true};
    bad_shape(name, form_text(f), s,
              f.form == kind::vector && f.shape[0] == s.rows && !output ? "; wrap one value per row in per_row()" : "",
              output);
  }
  if (f.form == kind::matrix) {
    if (f.shape == extents<2>{s.rows, s.width}) return {f.data, f.stride[0], f.stride[1], true};
  } else if (!output && f.shape[0] == s.rows) {
    return {f.data, f.stride[0], 0, false};
  }
  bad_shape(name, form_text(f), s, "", output);
}

/// Rows and tokens of the batch, from its offsets or from the first matrix among the fields that are read.
template <class T>
row_shape shape_of(const token_batch<T>& b, const input_fields<T>& fields, field reads) {
  using kind = typename token_field<const T>::kind;
  row_shape s;
  if (b.offsets.present()) {
    if (b.lengths.present())
      throw std::invalid_argument("rlcore: packed rows have offsets, not lengths; pass one of them");
    s.packed = true;
    s.rows = b.offsets.size - 1;
    if (s.rows < 0 || b.offsets[0] != 0)
      throw std::invalid_argument("rlcore: offsets must have rows + 1 entries and start at 0");
    for (extent_t i = 0; i < s.rows; ++i)
      if (b.offsets[i + 1] < b.offsets[i])
        throw std::invalid_argument("rlcore: offsets must not decrease, but offsets[" + std::to_string(i + 1) + "] = " +
                                    std::to_string(b.offsets[i + 1]) + " follows " + std::to_string(b.offsets[i]));
    s.width = static_cast<extent_t>(b.offsets[s.rows]);
    return s;
  }
  for (std::size_t i = 0; i < field_count; ++i)
    if (contains(reads, field_at(i)) && fields[i] && fields[i]->form == kind::matrix) {
      s.rows = fields[i]->shape[0], s.width = fields[i]->shape[1];
      s.model = field_names[i];
      break;
    }
  if (s.model.empty())
    throw std::invalid_argument("rlcore: none of the fields read is a matrix [rows, tokens]; packed rows need offsets");
  if (b.lengths.present()) {
    if (b.lengths.size != s.rows) bad_shape("lengths", to_string<1>({b.lengths.size}), s);
    for (extent_t i = 0; i < s.rows; ++i)
      if (b.lengths[i] < 0 || b.lengths[i] > s.width)
        throw std::invalid_argument("rlcore: lengths[" + std::to_string(i) + "] = " + std::to_string(b.lengths[i]) +
                                    " is not in 0 ... " + std::to_string(s.width));
  }
  return s;
}

inline void check_mask(const token_mask& m, const row_shape& s) {
  if (!m.present()) return;
  const bool fits = s.packed ? !m.matrix && m.shape[0] == s.width : m.matrix && m.shape == extents<2>{s.rows, s.width};
  if (!fits) bad_shape("mask", m.matrix ? to_string<2>(m.shape) : to_string<1>({m.shape[0]}), s);
}

}  // namespace detail
RLCORE_ALGORITHM_END
RLCORE_END
