// Advantages: as many rows at once as there are lanes, so that the recursion over time does not wait for itself.
#include <cmath>
#include <utility>

#include "raw/lanes.hpp"

namespace raw {
namespace {

/// x[i] and y[i] with the second (first) halves of every 2 * Step lanes taken from each other's.
template <std::size_t Step, std::size_t... K>
RAW_INLINE void swap_lanes(floats& x, floats& y, std::index_sequence<K...>) {
  const floats a = x, b = y;
  x = __builtin_shufflevector(a, b, (K & Step ? lanes + K - Step : K)...);
  y = __builtin_shufflevector(a, b, (K & Step ? lanes + K : K + Step)...);
}
template <std::size_t Step>
RAW_INLINE void transpose(floats (&x)[lanes]) {
  for (std::size_t i = 0; i < lanes; ++i)
    if ((i & Step) == 0) swap_lanes<Step>(x[i], x[i + Step], std::make_index_sequence<lanes>{});
  if constexpr (2 * Step < lanes) transpose<2 * Step>(x);
}
RAW_INLINE void load_columns(const float* from, std::size_t stride, floats (&x)[lanes]) {
  for (std::size_t k = 0; k < lanes; ++k) x[k] = load(from + k * stride);
  transpose<1>(x);
}

}  // namespace

void gae(const batch& b, const float* rewards, float gamma, float lambda, float* __restrict__ advantages,
         float* __restrict__ returns) {
  for (std::size_t i = 0; i < b.rows; i += lanes) {  // rows divide into packs
    floats next_value{}, next{};
    for (std::size_t t = b.tokens; t > 0;) {
      t -= lanes;
      const std::size_t at = i * b.tokens + t;
      floats reward[lanes], value[lanes], mask[lanes];
      load_columns(rewards + at, b.tokens, reward);
      load_columns(b.value + at, b.tokens, value);
      load_columns(b.mask + at, b.tokens, mask);
      for (std::size_t k = lanes; k-- > 0;) {
        const ints live = mask[k] != 0.0f;
        const floats delta = reward[k] + gamma * next_value - value[k];
        next = live ? delta + (gamma * lambda) * next : next;
        next_value = live ? value[k] : next_value;
        reward[k] = live ? next : floats{};
      }
      transpose<1>(reward);
      for (std::size_t k = 0; k < lanes; ++k) {
        const std::size_t slot = at + k * b.tokens;
        store(advantages + slot, reward[k]);
        store(returns + slot, load(b.mask + slot) != 0.0f ? reward[k] + load(b.value + slot) : floats{});
      }
    }
  }
}

void whiten(const batch& b, const float* x, float* __restrict__ out) {
  const std::size_t size = b.rows * b.tokens;
  const auto sum = [&](auto of) {
    wide total;
    for (std::size_t begin = 0; begin < size; begin += 8 * lanes) {
      floats part{};
      for (std::size_t t = begin; t < begin + 8 * lanes; t += lanes)
        part += load(b.mask + t) != 0.0f ? of(load(x + t)) : floats{};
      total.add(part);
    }
    return total.total();
  };
  const double n = sum([](floats) { return splat(1); }), mean = sum([](floats y) { return y; }) / n;
  const float m = static_cast<float>(mean);
  const double variance = sum([m](floats y) { return (y - m) * (y - m); }) / (n - 1);
  const float scale = static_cast<float>(1 / std::sqrt(variance + 1e-8));
  for (std::size_t t = 0; t < size; t += lanes)
    store(out + t, load(b.mask + t) != 0.0f ? (load(x + t) - m) * scale : floats{});
}

}  // namespace raw
