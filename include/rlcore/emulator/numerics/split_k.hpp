// Split-K of the NPU's matrix multiplication: a model of mat_mul_v3 (ops-nn, matmul_v3_base_tiling.cpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// The shape of a product c[m, n] = a[m, k] b[k, n] for elements of `bytes` bytes (2 or 4). a or b is transposed if it
/// lies in memory with m or k as its outer dimension exchanged, i.e. as [k, m] or [n, k].
struct product_shape {
  std::int64_t m = 0, n = 0, k = 0;
  int bytes = 2;
  bool a_transposed = false, b_transposed = false, hf32 = false;
};

/// Where each part of the sum over k ends. Every part is summed on its own in fp32; the parts are then added in fp32,
/// in order. One part is the rule; K is cut
///  - at every 768 bytes, if k >= 27392 and the 128 x 256 tiles of c occupy all cores (single-core split);
///  - else into one run of 768-byte pieces per core, as even as possible, if k >= 27392; if k >= 384 cores and the 128
///  x
///    128 tiles of c are fewer than half the cores, unless a is plain and b transposed (a linear layer's forward);
///    if a is transposed and b plain (a weight's gradient), 1000 <= k <= 4608 and m, n <= 256; or, for fp32 without
///    HF32, if m, n <= 64 and k >= 6144 (deterministic multi-core split).
/// The thresholds are the tiling's, the assignment of pieces to cores is ours.
inline std::vector<std::int64_t> split_k(const product_shape& p, int cores) {
  const auto tiles = [&](std::int64_t columns) { return (p.m + 127) / 128 * ((p.n + columns - 1) / columns); };
  const std::int64_t piece = 768 / p.bytes, pieces = (p.k + piece - 1) / piece;
  const bool long_k = p.k >= 27392;
  std::vector<std::int64_t> ends;
  if (long_k && tiles(256) >= cores) {
    for (std::int64_t i = 1; i <= pieces; ++i) ends.push_back(std::min(i * piece, p.k));
    return ends;
  }
  const bool few_tiles =
      p.k >= std::int64_t{384} * cores && tiles(128) < cores / 2 && (p.a_transposed || !p.b_transposed);
  const bool weight_gradient =
      p.a_transposed && !p.b_transposed && p.k >= 1000 && p.k <= 4608 && p.m <= 256 && p.n <= 256;
  const bool tiny_float = p.bytes == 4 && !p.hf32 && p.m <= 64 && p.n <= 64 && p.k >= 6144;
  const std::int64_t parts =
      long_k || few_tiles || weight_gradient || tiny_float ? std::min<std::int64_t>(pieces, cores) : 1;
  for (std::int64_t i = 1; i <= parts; ++i) ends.push_back(std::min(pieces * i / parts * piece, p.k));
  return ends;
}

}  // namespace ascend::emulated
RLCORE_END
