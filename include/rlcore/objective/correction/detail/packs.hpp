// Functions of the tokens of a row, a pack at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "rlcore/simd/math.hpp"
#include "rlcore/simd/reduce.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace correction {

/// f(pack of a, pack of b, which lanes exist, first token) for all packs of two equally long rows. The last, incomplete
/// pack is padded with 0.
template <class F>
RLCORE_FN void for_each_pack(std::span<const double> a, std::span<const double> b, F&& f) {
  using lanes = pack<double>;
  constexpr std::size_t width = lanes::lanes;
  const lanes one(1.0), zero(0.0);
  std::size_t k = 0;
  for (; k + width <= a.size(); k += width) f(load(a.data() + k), load(b.data() + k), one > zero, k);
  if (k == a.size()) return;
  double tail_a[width] = {}, tail_b[width] = {}, there[width] = {};
  std::copy(a.begin() + static_cast<std::ptrdiff_t>(k), a.end(), tail_a);
  std::copy(b.begin() + static_cast<std::ptrdiff_t>(k), b.end(), tail_b);
  std::fill(there, there + (a.size() - k), 1.0);
  f(load(tail_a), load(tail_b), load(there) > zero, k);
}

/// to[k] = f(a[k], b[k]), f of packs.
template <class F>
RLCORE_FN void transform_packs(std::span<const double> a, std::span<const double> b, std::span<double> to, F&& f) {
  using lanes = pack<double>;
  for_each_pack(a, b, [&](lanes x, lanes y, lane_mask<double>, std::size_t k) {
    const lanes result = f(x, y);
    if (k + lanes::lanes <= to.size()) {
      store(to.data() + k, result);
    } else {
      double tail[lanes::lanes];
      store(tail, result);
      std::copy(tail, tail + (to.size() - k), to.begin() + static_cast<std::ptrdiff_t>(k));
    }
  });
}

}  // namespace correction

RLCORE_ALGORITHM_END
RLCORE_END
