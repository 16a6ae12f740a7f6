// Row-wise access to a batch: the live tokens of each row in double, for any layout.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/detail/shape.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A mask that is written: any container of bool, integers, float or double, matrix or vector over packed tokens.
struct mask_output {
  std::byte* data = nullptr;
  token_mask seen{};  ///< the same memory for reading

  mask_output() = default;
  /// A view of a matrix or vector that is not const; nothing is copied.
  template <class X>
    requires(!std::is_same_v<std::remove_cvref_t<X>, mask_output>)
  mask_output(X&& x) {
    const auto v = as_view(std::forward<X>(x));
    using element = std::remove_pointer_t<decltype(v.data)>;
    static_assert(!std::is_const_v<element>, "rlcore: the mask that remains is written, this container is const");
    seen = token_mask(v);
    if constexpr (!std::is_const_v<element>) data = reinterpret_cast<std::byte*>(v.data);
  }

  bool present() const noexcept { return data != nullptr || seen.present(); }
};

/// The live tokens of one row, in order. The object is storage that is reused row by row.
class live_row {
 public:
  std::size_t size() const noexcept { return position_.size(); }
  /// Slots of the live tokens; neighbours in a turn differ by 1.
  std::span<const extent_t> position() const noexcept { return position_; }
  /// One field at the live tokens.
  std::span<const double> operator[](field f) const noexcept { return value_[index_of(f)]; }

  /// The place of a single field among the fields.
  static constexpr std::size_t index_of(field f) noexcept {
    std::size_t i = 0;
    while (field_at(i) != f) ++i;
    return i;
  }

 private:
  template <class>
  friend class live_rows;
  scratch_vector<extent_t> position_;
  std::array<scratch_vector<double>, field_count> value_;
};

/// Reads rows of a batch and writes results in the shape of its fields. Masked slots are never read.
template <class T>
class live_rows {
 public:
  /// `who` names the reader in messages. Throws std::invalid_argument if a field in `reads` is missing or shapes
  /// differ.
  live_rows(const token_batch<T>& batch, field reads, std::string_view who)
      : mask_(batch.mask), lengths_(batch.lengths), offsets_(batch.offsets), reads_(reads) {
    const detail::input_fields<T> inputs = detail::inputs_of(batch);
    for (std::size_t f = 0; f < field_count; ++f)
      if (contains(reads, field_at(f)) && !inputs[f]->present())
        throw std::invalid_argument("rlcore: " + std::string(who) + " reads " + std::string(field_names[f]) +
                                    ", but the batch has none; set token_batch::" + std::string(field_names[f]));
    shape_ = detail::shape_of(batch, inputs, reads);
    for (std::size_t f = 0; f < field_count; ++f)
      if (contains(reads, field_at(f))) input_[f] = detail::resolve(field_names[f], *inputs[f], shape_, false);
    detail::check_mask(mask_, shape_);
  }

  extent_t size() const noexcept { return shape_.rows; }

  /// Row i. Overwrites `row`.
  void read(extent_t i, live_row& row) const {
    const extent_t tokens = length(i);
    row.position_.resize(static_cast<std::size_t>(tokens));
    extent_t* position = row.position_.data();
    std::size_t count = 0;
    if (mask_.present()) {
      const std::byte* mask = token_loop::mask_row(mask_, i, offset(i));
      const extent_t step = token_loop::mask_step(mask_);
      token_loop::with_mask_reader(mask_, [&](auto live) {
        for (extent_t t = 0; t < tokens; ++t) position[count] = t, count += live(mask + t * step);
      });
      row.position_.resize(count);
    } else {
      for (; count < row.size(); ++count) position[count] = static_cast<extent_t>(count);
    }
    for (std::size_t f = 0; f < field_count; ++f) {
      if (!contains(reads_, field_at(f))) continue;
      const T* from = input_[f].row(i, offset(i));
      const extent_t step = input_[f].token_stride;
      row.value_[f].resize(count);
      double* to = row.value_[f].data();
      if (step == 1 && static_cast<extent_t>(count) == tokens)
        for (std::size_t k = 0; k < count; ++k) to[k] = static_cast<double>(from[k]);
      else
        for (std::size_t k = 0; k < count; ++k) to[k] = static_cast<double>(from[position[k] * step]);
    }
  }

  /// Where `out` has room for one value per token; throws std::invalid_argument if its shape is another.
  detail::row_source<T> target(std::string_view name, const token_field<T>& out) const {
    return detail::resolve(name, out, shape_, true);
  }
  /// Writes a value per live token of row i, and 0 to its other slots.
  void write(const detail::row_source<T>& out, extent_t i, const live_row& row, std::span<const double> values) const {
    T* to = out.row(i, offset(i));
    const extent_t step = out.token_stride;
    if (static_cast<extent_t>(row.size()) < slots(i))
      for (extent_t t = 0; t < slots(i); ++t) to[t * step] = T(0);
    for (std::size_t k = 0; k < row.size(); ++k) to[row.position()[k] * step] = static_cast<T>(values[k]);
  }

  /// Throws std::invalid_argument if `out` does not have the shape of the batch.
  void check(const mask_output& out) const { detail::check_mask(out.seen, shape_); }
  /// Writes 1 where keep is non-zero, and 0 to all other slots of row i. `out` may be the batch's own mask.
  void write(const mask_output& out, extent_t i, const live_row& row, std::span<const unsigned char> keep) const {
    std::byte* to = out.data + (token_loop::mask_row(out.seen, i, offset(i)) - out.seen.data);
    const bool floating = out.seen.floating;
    switch (out.seen.bytes) {
      case 1:
        return write_mask(out, i, row, keep, to, std::uint8_t{1});
      case 2:
        return write_mask(out, i, row, keep, to, std::uint16_t{1});
      case 4:
        return write_mask(out, i, row, keep, to, floating ? std::bit_cast<std::uint32_t>(1.0f) : 1u);
      default:
        return write_mask(out, i, row, keep, to, floating ? std::bit_cast<std::uint64_t>(1.0) : std::uint64_t{1});
    }
  }

 private:
  template <class Bits>
  void write_mask(const mask_output& out, extent_t i, const live_row& row, std::span<const unsigned char> keep,
                  std::byte* to, Bits one) const {
    const extent_t step = token_loop::mask_step(out.seen);
    const auto set = [&](extent_t t, Bits bits) { std::memcpy(to + t * step, &bits, sizeof(bits)); };
    if (static_cast<extent_t>(row.size()) < slots(i))
      for (extent_t t = 0; t < slots(i); ++t) set(t, Bits{0});
    for (std::size_t k = 0; k < row.size(); ++k) set(row.position()[k], keep[k] ? one : Bits{0});
  }
  extent_t offset(extent_t i) const noexcept { return shape_.packed ? static_cast<extent_t>(offsets_[i]) : -1; }
  extent_t length(extent_t i) const noexcept {
    if (shape_.packed) return static_cast<extent_t>(offsets_[i + 1] - offsets_[i]);
    return lengths_.present() ? static_cast<extent_t>(lengths_[i]) : shape_.width;
  }
  extent_t slots(extent_t i) const noexcept { return shape_.packed ? length(i) : shape_.width; }

  detail::row_shape shape_;
  detail::row_source<const T> input_[field_count];
  token_mask mask_;
  integer_list lengths_, offsets_;
  field reads_;
};

RLCORE_ALGORITHM_END
RLCORE_END
