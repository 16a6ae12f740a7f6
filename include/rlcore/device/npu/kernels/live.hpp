// Live-slot masks, live counts per row, and sums over rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlcore/device/device.hpp"
#include "rlcore/device/npu/kernels/rows.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

/// dead[n] = whether element k of the mask is 0.
void dead_elements(const context& c, const mask_elements& mask, const tensor_argument& dead);

/// live[rows, width] = 1 where the mask is not 0, else 0, see op::live_slots.
void live_slots(context& c, float* live, const mask_elements& mask, const std::int32_t* lengths,
                const std::int32_t* slots, extent_t rows, extent_t width);

/// sums[rows] = the sum of x[rows, width] over each row.
void row_sums(context& c, float* sums, const float* x, extent_t rows, extent_t width);

/// y[n] = x, integers in the range of int32.
inline void to_indices(context& c, std::int32_t* y, const float* x, extent_t n) {
  if (n != 0) c.cast(c.view(x, {n}), c.view(y, {n}));
}

}  // namespace ascend::kernels
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend::kernels {

RLCORE_INLINE void dead_elements(const context& c, const mask_elements& mask, const tensor_argument& dead) {
  const dimensions shape{mask.size};
  const auto with = [&](auto type) {
    using E = decltype(type);
    c.run(c.op().aclnnEqScalar, c.view(static_cast<const E*>(mask.data), shape), c.q.scalar(E{}), dead);
  };
  if (mask.floating) return with(float{});
  switch (mask.bytes) {
    case 1:
      return with(std::uint8_t{});
    case 4:
      return with(std::int32_t{});
    default:
      return with(std::int64_t{});
  }
}

RLCORE_INLINE void live_slots(context& c, float* live, const mask_elements& mask, const std::int32_t* lengths,
                              const std::int32_t* slots, extent_t rows, extent_t width) {
  if (rows * width == 0) return;
  const auto numbers = c.take<float>(2);
  const auto zero = c.view(numbers.data(), {1}), one = c.view(numbers.data() + 1, {1});
  c.fill(zero, 0), c.fill(one, 1);
  const auto all = c.view(live, {rows, width});
  if (mask.data == nullptr) {
    c.fill(all, 1);
  } else {
    const auto dead = c.take<bool>(mask.size);
    const auto is_dead = c.view(dead.data(), {mask.size});
    dead_elements(c, mask, is_dead);
    const auto flat = slots == nullptr ? scratch<float>(c.take<float>(0)) : c.take<float>(mask.size);
    float* to = slots == nullptr ? live : flat.data();
    c.where(is_dead, zero, one, c.view(to, {mask.size}));
    if (slots != nullptr)
      c.select(c.view(to, {mask.size}), c.view(slots, {rows * width}), c.view(live, {rows * width}));
  }
  if (lengths == nullptr) return;
  const auto positions = c.take<std::int32_t>(width);
  const auto inside = c.take<bool>(rows * width);
  const auto is_inside = c.view(inside.data(), {rows, width}), position = c.view(positions.data(), {1, width});
  c.run(c.op().aclnnArange, c.q.scalar(std::int64_t{0}), c.q.scalar(std::int64_t{width}), c.q.scalar(std::int64_t{1}),
        c.view(positions.data(), {width}));
  c.run(c.op().aclnnLtTensor, position, c.view(lengths, {rows, 1}), is_inside);
  c.where(is_inside, all, c.view(numbers.data(), {1, 1}), all);
}

RLCORE_INLINE void row_sums(context& c, float* sums, const float* x, extent_t rows, extent_t width) {
  if (rows == 0) return;
  if (width == 0) return fill(c, sums, 0, rows);
  for_pieces(rows, width, most_elements, [&](extent_t first, extent_t n) {
    c.sum(c.rows(x + first * width, n, width), 1, false, c.view(sums + first, {n}));
  });
}

}  // namespace ascend::kernels
RLCORE_END
#endif
