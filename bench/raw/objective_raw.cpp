// One fused pass with vector extensions, written for this one loss: the same arithmetic as the composed loop (an
// exponential that is right over its whole range, k3 without cancellation), nothing more general than needed.
#include "raw/objective_raw.hpp"

#include <cstring>

namespace {

#if defined(__AVX512F__) && defined(__AVX512DQ__)
constexpr std::size_t bytes = 64;
#elif defined(__AVX2__)
constexpr std::size_t bytes = 32;
#else
constexpr std::size_t bytes = 16;
#endif
constexpr std::size_t lanes = bytes / sizeof(float);
typedef float floats __attribute__((vector_size(bytes)));
typedef std::int32_t ints __attribute__((vector_size(bytes)));
typedef std::uint32_t unsigneds __attribute__((vector_size(bytes)));
typedef float half_floats __attribute__((vector_size(bytes / 2)));
typedef double doubles __attribute__((vector_size(bytes)));

inline floats load(const float* p) {
  floats x;
  std::memcpy(&x, p, sizeof(x));
  return x;
}
inline floats splat(float x) { return x - floats{}; }

struct wide {
  doubles low{}, high{};
  void add(floats x) {
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

}  // namespace

raw_grpo_result raw_grpo(const float* logp, const float* old_logp, const float* ref_logp, const float* advantage,
                         const float* mask, std::size_t rows, std::size_t tokens, float low, float high, float kl,
                         float* __restrict__ gradient) {
  raw_grpo_result result;
  std::size_t live_rows = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    bool any = mask == nullptr;
    for (std::size_t t = 0; t < tokens && !any; ++t) any = mask[i * tokens + t] != 0;
    live_rows += any;
  }
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t at = i * tokens;
    std::size_t live = tokens;
    if (mask) {
      live = 0;
      for (std::size_t t = 0; t < tokens; ++t) live += mask[at + t] != 0;
    }
    if (live == 0) {
      std::memset(gradient + at, 0, tokens * sizeof(float));
      continue;
    }
    const float weight = static_cast<float>(1.0 / (static_cast<double>(live_rows) * static_cast<double>(live)));
    const floats a = splat(advantage[i]);
    wide policy_sum, kl_sum, clipped_sum;
    for (std::size_t begin = 0; begin < tokens; begin += 8 * lanes) {
      floats policy_part{}, kl_part{}, clipped_part{};
      for (std::size_t t = begin; t < tokens && t < begin + 8 * lanes; t += lanes) {  // tokens is a multiple of lanes
        const floats l = load(logp + at + t), x = l - load(old_logp + at + t), e = load(ref_logp + at + t) - l;
        // ratio = exp(x)
        floats c = x < -104.0f ? splat(-104.0f) : x > 89.0f ? splat(89.0f) : x;
        floats shifted = c * 0x1.715476p0f + 0x1.8p23f;
        ints n = (ints)shifted - 0x4b400000;
        floats whole = __builtin_convertvector(n, floats);
        floats r = (c - whole * 0x1.62e4p-1f) - whole * 0x1.7f7d1cp-20f;
        floats p = ((((0.0013926183588f * r + 0.0083631790527f) * r + 0.041666554617f) * r + 0.16666577f) * r + 0.5f);
        ints h = (ints)((unsigneds)(n + 4096) >> 1) - 2048;
        const floats ratio = (1.0f + (r + r * r * p)) * (floats)((h + 127) << 23) * (floats)((n - h + 127) << 23);
        // surrogate
        const floats bounded = ratio < 1 - low ? splat(1 - low) : ratio > 1 + high ? splat(1 + high) : ratio;
        const floats free = ratio * a, held = bounded * a;
        const ints clipped = free > held;
        // k3 = exp(e) - 1 - e
        const ints small = (e <= 0.5f) & (e >= -0.5f);
        c = e < -104.0f ? splat(-104.0f) : e > 89.0f ? splat(89.0f) : e;
        shifted = c * 0x1.715476p0f + 0x1.8p23f;
        n = ((ints)shifted - 0x4b400000) & ~small;
        whole = __builtin_convertvector(n, floats);
        r = (c - whole * 0x1.62e4p-1f) - whole * 0x1.7f7d1cp-20f;
        p = ((((((0.0000249224364f * r + 0.000199621762f) * r + 0.00138887377f) * r + 0.0083331820716f) * r +
               0.041666667139f) *
                  r +
              0.16666667139f) *
                 r +
             0.5f);
        const floats q = r * r * p;
        h = (ints)((unsigneds)(n + 4096) >> 1) - 2048;
        const floats less_one = (1.0f + (r + q)) * (floats)((h + 127) << 23) * (floats)((n - h + 127) << 23) - 1.0f;
        const floats k3 = small ? q : less_one - e, slope = small ? -(r + q) : -less_one;
        ints live_lanes = ~ints{};
        if (mask) live_lanes = load(mask + at + t) != 0.0f;
        policy_part += live_lanes ? (clipped ? -held : -free) : floats{};
        clipped_part += (live_lanes & clipped) ? splat(1.0f) : floats{};
        kl_part += live_lanes ? k3 : floats{};
        const floats g = live_lanes ? weight * ((clipped ? floats{} : -free) + kl * slope) : floats{};
        std::memcpy(gradient + at + t, &g, sizeof(g));
      }
      policy_sum.add(policy_part), kl_sum.add(kl_part), clipped_sum.add(clipped_part);
    }
    const double w = 1.0 / (static_cast<double>(live_rows) * static_cast<double>(live));
    result.policy += w * policy_sum.total(), result.kl += w * kl_sum.total(), result.clipped += clipped_sum.total();
  }
  return result;
}

double raw_read(const float* x, std::size_t count) {
  floats sum[4] = {};
  for (std::size_t i = 0; i + 4 * lanes <= count; i += 4 * lanes)
    for (std::size_t k = 0; k < 4; ++k) sum[k] += load(x + i + k * lanes);
  const floats all = sum[0] + sum[1] + (sum[2] + sum[3]);
  double total = 0;
  for (std::size_t i = 0; i < lanes; ++i) total += static_cast<double>(all[i]);
  return total;
}
