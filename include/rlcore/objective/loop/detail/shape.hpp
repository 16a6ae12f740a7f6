// Shapes and stages of a batch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/core/order.hpp"
#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/objective/loop/detail/row.hpp"
#include "rlcore/objective/piece/piece.hpp"

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
  std::string_view model;  // the field whose shape all fields must have; none if packed

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

/// The first and one past the last address of the elements of `rows` rows of `width` tokens.
template <class T>
std::pair<std::uintptr_t, std::uintptr_t> address_range(const row_source<T>& x, extent_t rows,
                                                        extent_t width) noexcept {
  extent_t low = 0, high = 0;
  for (const extent_t last : {(rows - 1) * x.row_stride, x.per_token ? (width - 1) * x.token_stride : extent_t{0}})
    (last < 0 ? low : high) += last;
  const auto address = [&](extent_t at) {
    return reinterpret_cast<std::uintptr_t>(x.data) + static_cast<std::uintptr_t>(at) * sizeof(T);
  };
  return {address(low), address(high + 1)};
}

/// Addresses i outer + j inner, 0 <= i < outer_count and 0 <= j < inner_count, the larger stride outside.
struct address_grid {
  extent_t outer = 0, inner = 0, outer_count = 1, inner_count = 1;

  address_grid(extent_t row_stride, extent_t rows, extent_t token_stride, extent_t width) noexcept
      : outer(row_stride), inner(token_stride), outer_count(rows), inner_count(width) {
    if ((outer < 0 ? -outer : outer) < (inner < 0 ? -inner : inner))
      std::swap(outer, inner), std::swap(outer_count, inner_count);
  }
  /// Whether `at` is an address; with `differences`, the difference of two of them.
  bool contains(extent_t at, bool differences) const noexcept {
    const extent_t guess = outer == 0 ? 0 : at / outer;
    for (const extent_t i : {guess - 1, guess, guess + 1}) {
      const extent_t left = at - i * outer, j = inner == 0 ? 0 : left / inner;
      if (j * inner != left || i >= outer_count || j >= inner_count) continue;
      if (differences ? i > -outer_count && j > -inner_count : i >= 0 && j >= 0) return true;
    }
    return false;
  }
};

/// Whether an element of `a` is an element of `b`; `a` has one per token, `b` may have one per row. Arrays that lie
/// between each other (two fields of an array of structs) share none.
template <class A, class B>
bool share_elements(const row_source<A>& a, const row_source<B>& b, const row_shape& s) noexcept {
  const extent_t rows = s.packed ? 1 : s.rows;  // packed tokens are one row of all
  if (rows == 0 || s.width == 0 || a.data == nullptr || b.data == nullptr) return false;
  const extent_t b_rows = b.per_token ? rows : s.rows, b_width = b.per_token ? s.width : 1;
  const auto [a_first, a_end] = address_range(a, rows, s.width);
  const auto [b_first, b_end] = address_range(b, b_rows, b_width);
  if (a_end <= b_first || b_end <= a_first) return false;
  const address_grid grid(b.row_stride, b_rows, b.per_token ? b.token_stride : 0, b_width);
  const extent_t apart = static_cast<const B*>(a.data) - b.data;
  if (b.per_token && a.row_stride == b.row_stride && a.token_stride == b.token_stride)
    return grid.contains(-apart, true);
  for (extent_t i = 0; i < rows; ++i)
    for (extent_t t = 0; t < s.width; ++t)
      if (grid.contains(apart + i * a.row_stride + t * a.token_stride, false)) return true;
  return false;
}

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

namespace token_loop {

/// Packs per staged segment: small enough that all fields of a segment stay in the first-level cache.
inline constexpr std::size_t staged_packs = 16;

template <class T>
using mask_lane = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

/// Copies `count` elements that lie `stride` apart and pads with zeros to `padded`.
template <class T>
inline void stage_values(const T* from, extent_t stride, std::size_t count, std::size_t padded, T* to) noexcept {
  if (stride == 1)
    std::memcpy(to, from, count * sizeof(T));
  else
    for (std::size_t k = 0; k < count; ++k) to[k] = from[static_cast<extent_t>(k) * stride];
  detail::fill(to + count, to + padded, T(0));
}

/// One mask element as truth: any bit of an integer, any bit but the sign of a floating value (-0 is not live).
template <class Integer>
RLCORE_FN bool is_live(const std::byte* element, bool floating) noexcept {
  Integer bits;
  std::memcpy(&bits, element, sizeof(bits));
  return (floating ? static_cast<Integer>(bits << 1) : bits) != 0;
}

/// Calls f(element reader) with the reader for the mask's element size, so that loops over a mask are compiled per
/// size.
template <class F>
RLCORE_FN auto with_mask_reader(const token_mask& m, F&& f) noexcept {
  const bool floating = m.floating;
  switch (m.bytes) {
    case 1:
      return f([](const std::byte* p) { return is_live<std::uint8_t>(p, false); });
    case 2:
      return f([](const std::byte* p) { return is_live<std::uint16_t>(p, false); });
    case 4:
      return f([floating](const std::byte* p) { return is_live<std::uint32_t>(p, floating); });
    default:
      return f([floating](const std::byte* p) { return is_live<std::uint64_t>(p, floating); });
  }
}

/// First mask element of row i, whose first token is token `offset` of packed rows (or -1).
inline const std::byte* mask_row(const token_mask& m, extent_t i, extent_t offset) noexcept {
  return m.data + (m.matrix ? i * m.stride[0] : offset * m.stride[0]) * m.bytes;
}
inline extent_t mask_step(const token_mask& m) noexcept { return (m.matrix ? m.stride[1] : m.stride[0]) * m.bytes; }

/// Live slots among the first `length` of a row.
inline std::int64_t count_live(const token_mask& m, const std::byte* row, std::size_t length) noexcept {
  const extent_t step = mask_step(m);
  std::int64_t n = 0;
  std::size_t k = 0;
  if (m.bytes == 4 && step == 4) {  // the mask of a tight loop: whole packs at a time
    using integers = lane_types<float>::integers;
    const std::int32_t bits = m.floating ? std::numeric_limits<std::int32_t>::max() : -1;
    integers sum{};
    for (; k + pack<float>::lanes <= length; k += pack<float>::lanes) {
      integers lanes;
      std::memcpy(&lanes, row + k * 4, sizeof(lanes));
      sum -= (lanes & bits) != 0;
    }
    n = sum_elements(sum);
  }
  return with_mask_reader(m, [&](auto live) {
    for (; k < length; ++k) n += live(row + static_cast<extent_t>(k) * step);
    return n;
  });
}

/// The mask of `count` slots as lane integers (0 or -1), padded with dead slots.
template <class T>
inline void stage_mask(const token_mask& m, const std::byte* from, std::size_t count, std::size_t padded,
                       mask_lane<T>* to) noexcept {
  const extent_t step = mask_step(m);
  with_mask_reader(m, [&](auto live) {
    for (std::size_t k = 0; k < count; ++k)
      to[k] = -static_cast<mask_lane<T>>(live(from + static_cast<extent_t>(k) * step));
  });
  detail::fill(to + count, to + padded, mask_lane<T>(0));
}

}  // namespace token_loop

RLCORE_ALGORITHM_END
RLCORE_END
