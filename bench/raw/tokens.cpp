// Token losses: one fused pass each, written for the one loss it is.
#include "raw/lanes.hpp"

namespace raw {

result dual_clipped(const batch& b, float low, float high, float bound, float limit, float* gradient) {
  return each_pack<4>(
      b, gradient, [&](double) { return 1 / b.live_tokens; },
      [&](std::size_t row, std::size_t at, auto add) {
        const floats x = load(b.logp + at) - load(b.old_logp + at), c = clamp(x, -limit, limit), ratio = exp(c),
                     a = splat(b.advantage[row]), free = ratio * a, held = clamp(ratio, 1 - low, 1 + high) * a,
                     ceiling = -a * bound;
        const ints over = free > held;
        const floats upper = over ? -held : -free;
        const ints lowered = (a < 0.0f) & (upper > ceiling);
        add(0, lowered ? ceiling : upper);
        add(1, over ? splat(1) : floats{});
        add(2, lowered ? splat(1) : floats{});
        add(3, -c);
        return (over | lowered | (x > limit) | (x < -limit)) ? floats{} : -free;
      });
}

result clipped(const batch& b, float low, float high, double length, float* gradient) {
  const double w = length > 0 ? 1 / (b.live_rows * length) : 1 / b.live_tokens;
  return each_pack<2>(
      b, gradient, [&](double) { return w; },
      [&](std::size_t row, std::size_t at, auto add) {
        const floats ratio = exp(load(b.logp + at) - load(b.old_logp + at)), a = splat(b.advantage[row]),
                     free = ratio * a, held = clamp(ratio, 1 - low, 1 + high) * a;
        const ints over = free > held;
        add(0, over ? -held : -free);
        add(1, over ? splat(1) : floats{});
        return over ? floats{} : -free;
      });
}

result grpo(const batch& b, float low, float high, float kl, float* gradient) {
  result r = each_pack<3>(
      b, gradient, [&](double live) { return 1 / (b.live_rows * live); },
      [&](std::size_t row, std::size_t at, auto add) {
        const floats l = load(b.logp + at), ratio = exp(l - load(b.old_logp + at)), a = splat(b.advantage[row]),
                     free = ratio * a, held = clamp(ratio, 1 - low, 1 + high) * a;
        const ints over = free > held;
        const less_one k3 = exp_less_one(load(b.ref_logp + at) - l);
        add(0, (over ? -held : -free) + kl * k3.excess);
        add(1, over ? splat(1) : floats{});
        add(2, k3.excess);
        return (over ? floats{} : -free) - kl * k3.expm1;
      });
  return r;
}

result cispo(const batch& b, float bound, float* gradient) {
  return each_pack<2>(
      b, gradient, [&](double) { return 1 / b.live_tokens; },
      [&](std::size_t row, std::size_t at, auto add) {
        const floats l = load(b.logp + at), ratio = exp(l - load(b.old_logp + at)),
                     slope = -(ratio > bound ? splat(bound) : ratio) * b.advantage[row];
        add(0, slope * l);
        add(1, ratio > bound ? splat(1) : floats{});
        return slope;
      });
}

result sapo(const batch& b, float positive, float negative, float* gradient) {
  return each_pack<1>(
      b, gradient, [&](double live) { return 1 / (b.live_rows * live); },
      [&](std::size_t row, std::size_t at, auto add) {
        const floats ratio = exp(load(b.logp + at) - load(b.old_logp + at));
        const float tau = b.advantage[row] > 0 ? positive : negative, a = b.advantage[row];
        const floats z = tau * (ratio - 1.0f), e = exp(z < 0.0f ? z : -z), inverse = 1.0f / (1.0f + e),
                     high = z < 0.0f ? e * inverse : inverse, low = z < 0.0f ? inverse : e * inverse;
        add(0, high * (-4 * a / tau));
        return high * low * ratio * (-4 * a);
      });
}

result policy_gradient(const batch& b, bool sequence_mean, float* gradient) {
  return each_pack<1>(
      b, gradient, [&](double) { return 1 / (sequence_mean ? b.live_rows : b.live_tokens); },
      [&](std::size_t row, std::size_t at, auto add) {
        const floats a = splat(b.advantage[row]);
        add(0, -a * load(b.logp + at));
        return -a;
      });
}

namespace {

/// The bounded policy gradient outside of `out`, with both of DPPO's diagnostics.
template <class Add>
RAW_INLINE floats within(floats l, floats ratio, float a, ints out, float bound, Add add) {
  const ints above = ratio > bound;
  const floats slope = out ? floats{} : (above ? splat(bound) : ratio) * -a;
  add(0, slope * l);
  add(1, out ? splat(1) : floats{});
  add(2, ~out & above ? splat(1) : floats{});
  return slope;
}

}  // namespace

result dppo_tv(const batch& b, float low, float high, float bound, float* gradient) {
  return each_pack<3>(
      b, gradient, [&](double) { return 1 / b.live_tokens; },
      [&](std::size_t row, std::size_t at, auto add) {
        const floats l = load(b.logp + at), o = load(b.old_logp + at), moved = exp(l) - exp(o);
        const float a = b.advantage[row];
        return within(l, exp(l - o), a, a > 0 ? moved > high : moved < -low, bound, add);
      });
}

result dppo_kl(const batch& b, float low, float high, float bound, float* gradient) {
  return each_pack<3>(
      b, gradient, [&](double) { return 1 / b.live_tokens; },
      [&](std::size_t row, std::size_t at, auto add) {
        const floats l = load(b.logp + at), o = load(b.old_logp + at), x = l - o, rest_old = -exp_less_one(o).expm1,
                     rest = -exp_less_one(l).expm1,
                     kl = rest_old * log((rest_old + 1e-8f) / (rest + 1e-8f)) - exp(o) * x;
        const float a = b.advantage[row];
        const ints out = a > 0 ? (kl > high) & (x > 0.0f) : (kl > low) & (x < 0.0f);
        return within(l, exp(x), a, out, bound, add);
      });
}

result dro(const batch& b, float beta, float* gradient) {
  return each_pack<3>(
      b, gradient, [&](double) { return 1 / b.live_tokens; },
      [&](std::size_t row, std::size_t at, auto add) {
        const floats l = load(b.logp + at), x = l - load(b.old_logp + at), a = splat(b.advantage[row]), policy = -a * l,
                     square = 0.5f * (x * x);
        add(0, policy + beta * square);
        add(1, policy);
        add(2, square);
        return beta * x - a;
      });
}

result value_loss(const batch& b, float range, float* gradient) {
  return each_pack<2>(
      b, gradient, [&](double) { return 1 / b.live_tokens; },
      [&](std::size_t, std::size_t at, auto add) {
        const floats v = load(b.value + at), old = load(b.old_value + at), r = load(b.target + at), free = v - r,
                     bounded = v < old - range   ? old - range
                               : v > old + range ? old + range
                                                 : v,
                     held = bounded - r;
        const ints over = held * held > free * free;
        add(0, 0.5f * (over ? held * held : free * free));
        add(1, over ? splat(1) : floats{});
        return over ? floats{} : free;
      });
}

double read(const float* x, std::size_t count) {
  floats sum[4] = {};
  for (std::size_t i = 0; i + 4 * lanes <= count; i += 4 * lanes)
    for (std::size_t k = 0; k < 4; ++k) sum[k] += load(x + i + k * lanes);
  const floats all = sum[0] + sum[1] + (sum[2] + sum[3]);
  double total = 0;
  for (std::size_t i = 0; i < lanes; ++i) total += static_cast<double>(all[i]);
  return total;
}

}  // namespace raw
