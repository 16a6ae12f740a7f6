// Rotary position embedding, RoPE (Su et al. 2021), as the training operator computes it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "rlcore/emulator/operators/promotion.hpp"

RLCORE_BEGIN
namespace ascend::emulated::plans {

/// Which input element is paired with element i of a head of `width`, and with which sign.
struct rotary_pair {
  std::size_t other = 0;
  bool negative = false;
};
/// Mode 0 pairs halves, (-x2, x1); mode 1 neighbours, (-x1, x0, -x3, x2, ...).
inline rotary_pair rotated(std::int64_t mode, std::size_t i, std::size_t width) {
  if (mode == 1) return i % 2 == 0 ? rotary_pair{i + 1, true} : rotary_pair{i - 1, false};
  const std::size_t half = width / 2;
  return i < half ? rotary_pair{i + half, true} : rotary_pair{i - half, false};
}

/// out = x cos + rotate(x) sin, one rounding. cos and sin repeat along dimensions of extent 1: x [B, N, S, D] with
/// [1 or B, 1, S, D], [B, S, N, D] with [1 or B, S, 1, D], [S, B, N, D] with [S, 1 or B, 1, D], [T, N, D] with
/// [T, 1, D]. Refused as documented: D odd, or 896 and more; B or N of 1000 and more in mode 0; modes 2 and 3, which A2
/// and A3 run as mode 0 (161002). Refused by the tiling: [B, N, S, D] with B N > 8 S where D / 2 is a multiple of
/// 32 bytes and neither B nor S is 1 (561002).
kernel aclnnRotaryPositionEmbedding(planner& p, input self, input cosine, input sine, std::int64_t mode, output out);

}  // namespace ascend::emulated::plans
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated::plans {

RLCORE_INLINE kernel aclnnRotaryPositionEmbedding(planner& p, input self, input cosine, input sine, std::int64_t mode,
                                                  output out) {
  auto x = p.in(self, float_types), c = p.in(cosine, float_types), s = p.in(sine, float_types);
  auto y = p.out(out, float_types);
  p.require(c.type == x.type && s.type == x.type && y.type == x.type, "x, cos, sin and out have different types");
  p.require(mode == 0 || mode == 1, "mode " + std::to_string(mode) + " is neither 0 nor 1");
  p.require(x.rank() == 4 || x.rank() == 3, "x is neither of rank 4 nor of rank 3");
  p.require_shape(y, x.shape, "the output");
  p.require(y.contiguous(), "the output has gaps between its rows");
  p.require_shape(s, c.shape, "sin");
  p.require(c.rank() == x.rank() && broadcastable(c.shape, x.shape) && c.shape.back() == x.shape.back(),
            "cos of shape " + printed(c.shape) + " for x of shape " + printed(x.shape));
  const std::int64_t head = x.shape.back();
  p.require(head < 896 && head % 2 == 0, "a head of width " + std::to_string(head));
  if (x.rank() == 4) {
    const bool heads_second = c.shape[1] == 1 && (c.shape[2] != 1 || x.shape[1] != 1);  // BNSD
    const std::int64_t batch = x.shape[0], heads = heads_second ? x.shape[1] : x.shape[2],
                       positions = heads_second ? x.shape[2] : x.shape[1];
    if (mode == 0 && heads_second) {
      p.require(batch < 1000 && heads < 1000, "1000 and more heads or sequences");
      const bool aligned = head / 2 * static_cast<std::int64_t>(bytes_of(x.type)) % 32 == 0;
      if (aligned && batch > 1 && positions > 1 && batch * heads > 8 * positions)
        p.refuse(tiling_failed, "BNSD with B N > 8 S: " + printed(x.shape) + " (use BSND or TND)");
    }
  }
  const tensor cos_view = expanded(std::move(c), x.shape), sin_view = expanded(std::move(s), x.shape);
  return in_working_precision(
      p.machine, [x = std::move(x), y = std::move(y), cos_view, sin_view, mode](execution& e, auto real) {
        using Real = decltype(real);
        const auto v = e.read<Real>(x), cosines = e.read<Real>(cos_view), sines = e.read<Real>(sin_view);
        const auto to = e.result<Real>(y);
        const auto width = static_cast<std::size_t>(x.shape.back());
        for (std::size_t row = 0; row < to.size(); row += width)
          for (std::size_t i = 0; i < width; ++i) {
            const rotary_pair pair = rotated(mode, i, width);
            const Real other = v[row + pair.other], turned = pair.negative ? -other : other;
            to[row + i] = v[row + i] * cosines[row + i] + turned * sines[row + i];
          }
        e.store(y, to);
      });
}

}  // namespace ascend::emulated::plans
RLCORE_END
#endif
