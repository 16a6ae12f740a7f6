// From one row of strided memory to whole packs of contiguous memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "rlcore/core/order.hpp"
#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/objective/loop/detail/row.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
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
