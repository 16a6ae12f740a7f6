// The vector vocabulary of the hand-written twins. Nothing of rlcore is included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "raw/twins.hpp"

namespace raw {

#if defined(__AVX512F__) && defined(__AVX512DQ__)
inline constexpr std::size_t bytes = 64;
#elif defined(__AVX2__)
inline constexpr std::size_t bytes = 32;
#else
inline constexpr std::size_t bytes = 16;
#endif
inline constexpr std::size_t lanes = bytes / sizeof(float);
typedef float floats __attribute__((vector_size(bytes)));
typedef std::int32_t ints __attribute__((vector_size(bytes)));
typedef std::uint32_t unsigneds __attribute__((vector_size(bytes)));
typedef float half_floats __attribute__((vector_size(bytes / 2)));
typedef double doubles __attribute__((vector_size(bytes)));

#define RAW_INLINE inline __attribute__((always_inline))

RAW_INLINE floats load(const float* p) {
  floats x;
  std::memcpy(&x, p, sizeof(x));
  return x;
}
RAW_INLINE void store(float* p, floats x) { std::memcpy(p, &x, sizeof(x)); }
RAW_INLINE floats splat(float x) { return x - floats{}; }

/// e^r * 2^n; 2^n in two factors, so that the ends of the range come out right.
struct reduced {
  floats r, low, high;
};
RAW_INLINE reduced reduce(floats x, ints keep) {
  const floats c = x < -104.0f ? splat(-104.0f) : x > 89.0f ? splat(89.0f) : x;
  const floats shifted = c * 0x1.715476p0f + 0x1.8p23f;
  const ints n = ((ints)shifted - 0x4b400000) & ~keep;
  const floats whole = __builtin_convertvector(n, floats);
  const ints half = (ints)((unsigneds)(n + 4096) >> 1) - 2048;
  return {(c - whole * 0x1.62e4p-1f) - whole * 0x1.7f7d1cp-20f, (floats)((half + 127) << 23),
          (floats)((n - half + 127) << 23)};
}

/// e^x over the whole range.
RAW_INLINE floats exp(floats x) {
  const auto [r, low, high] = reduce(x, ints{});
  const floats p = (((0.0013926183588f * r + 0.0083631790527f) * r + 0.041666554617f) * r + 0.16666577f) * r + 0.5f;
  return (1.0f + (r * r * p + r)) * low * high;
}

/// e^x - 1 and e^x - 1 - x without cancellation.
struct less_one {
  floats expm1, excess;
};
RAW_INLINE less_one exp_less_one(floats x) {
  const ints small = (x <= 0.5f) & (x >= -0.5f);
  const auto [r, low, high] = reduce(x, small);
  const floats p = (((((0.0000249224364f * r + 0.000199621762f) * r + 0.00138887377f) * r + 0.0083331820716f) * r +
                     0.041666667139f) *
                        r +
                    0.16666667139f) *
                       r +
                   0.5f;
  const floats q = r * r * p, m = r + q, far_away = (1.0f + m) * low * high - 1.0f;
  return {small ? m : far_away, small ? q : far_away - x};
}

/// Natural logarithm of normal numbers; -infinity for 0, NaN below.
RAW_INLINE floats log(floats x) {
  const ints bits = (ints)x, shifted = bits - 0x3f3504f3;  // the mantissa is brought into [1/sqrt2, sqrt2)
  const floats n = __builtin_convertvector(shifted >> 23, floats), m = (floats)(bits - (shifted & ~0x7fffff)),
               f = m - 1, s = f / (2.0f + f), z = s * s,
               r = z * (0.6666666655f + z * (0.4000012228f + z * (0.285507811f + z * 0.2333136754f))),
               half = 0.5f * f * f, y = n * 0.693147182f - ((half - s * (half + r)) - f);
  return x > 0.0f ? y : x == 0.0f ? splat(-__builtin_inff()) : splat(__builtin_nanf(""));
}

RAW_INLINE floats clamp(floats x, float low, float high) { return x < low ? splat(low) : x > high ? splat(high) : x; }

/// A sum in double of floats.
struct wide {
  doubles low{}, high{};
  RAW_INLINE void add(floats x) {
    half_floats h[2];
    std::memcpy(h, &x, sizeof(h));
    low += __builtin_convertvector(h[0], doubles);
    high += __builtin_convertvector(h[1], doubles);
  }
  double total() const {
    double sum = 0;
    const doubles both = low + high;
    for (std::size_t i = 0; i < lanes / 2; ++i) sum += both[i];
    return sum;
  }
};

inline int total(ints x) {
  int sum = 0;
  for (std::size_t k = 0; k < lanes; ++k) sum += x[k];
  return sum;
}

/// Live slots of one row.
inline int count_live(const float* mask, std::size_t tokens) {
  ints sum{};
  for (std::size_t t = 0; t < tokens; t += lanes) sum -= load(mask + t) != 0.0f;
  return total(sum);
}

/// The two loops around every token loss: calls body(first slot of a pack, its live lanes, sums) and writes weight
/// times the slope that it returns. `sums` has as many entries as the twin reports; weight(live tokens) is the row's.
template <std::size_t Sums, class Weight, class Body>
RAW_INLINE result each_pack(const batch& b, float* __restrict__ gradient, Weight weight, Body body) {
  result out;
  for (std::size_t i = 0; i < b.rows; ++i) {
    const std::size_t at = i * b.tokens;
    const int live = count_live(b.mask + at, b.tokens);
    if (live == 0) {
      std::memset(gradient + at, 0, b.tokens * sizeof(float));
      continue;
    }
    const double w = weight(live);
    wide total[Sums];
    for (std::size_t begin = 0; begin < b.tokens; begin += 8 * lanes) {
      floats part[Sums] = {};
      for (std::size_t t = begin; t < b.tokens && t < begin + 8 * lanes; t += lanes) {  // tokens divide into packs
        const ints lives = load(b.mask + at + t) != 0.0f;
        const floats slope = body(i, at + t, [&](std::size_t s, floats x) { part[s] += lives ? x : floats{}; });
        store(gradient + at + t, lives ? slope * static_cast<float>(w) : floats{});
      }
      for (std::size_t s = 0; s < Sums; ++s) total[s].add(part[s]);
    }
    out.sum[0] += w * total[0].total();
    for (std::size_t s = 1; s < Sums; ++s) out.sum[s] += total[s].total();
  }
  return out;
}

}  // namespace raw
