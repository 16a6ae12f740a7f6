// Losses with one term per sequence or per pair: gather a row, one scalar formula, scatter.
#include <cmath>

#include "raw/lanes.hpp"

namespace raw {
namespace {

/// Sum of a score over a row's live slots.
template <class Score>
RAW_INLINE double gather(const batch& b, std::size_t row, Score score) {
  const std::size_t at = row * b.tokens;
  wide total;
  for (std::size_t begin = 0; begin < b.tokens; begin += 8 * lanes) {
    floats part{};
    for (std::size_t t = begin; t < b.tokens && t < begin + 8 * lanes; t += lanes)
      part += load(b.mask + at + t) != 0.0f ? score(at + t) : floats{};
    total.add(part);
  }
  return total.total();
}

/// The same slope to every live slot of a row.
RAW_INLINE void scatter(const batch& b, std::size_t row, double slope, float* __restrict__ gradient) {
  const floats s = splat(static_cast<float>(slope));
  for (std::size_t t = row * b.tokens; t < (row + 1) * b.tokens; t += lanes)
    store(gradient + t, load(b.mask + t) != 0.0f ? s : floats{});
}

RAW_INLINE double count(const batch& b, std::size_t row) { return count_live(b.mask + row * b.tokens, b.tokens); }
double sigmoid(double z) { return z >= 0 ? 1 / (1 + std::exp(-z)) : std::exp(z) / (1 + std::exp(z)); }
double softplus(double z) { return std::fmax(z, 0) + std::log1p(std::exp(-std::fabs(z))); }
double log1mexp(double x) { return x > -0.6931471805599453 ? std::log(-std::expm1(x)) : std::log1p(-std::exp(x)); }

}  // namespace

result gspo(const batch& b, float low, float high, float* gradient) {
  result out;
  for (std::size_t i = 0; i < b.rows; ++i) {
    const double n = count(b, i), w = 1 / b.live_rows;
    if (n == 0) continue;
    const double mean = gather(b, i, [&](std::size_t at) { return load(b.logp + at) - load(b.old_logp + at); }) / n;
    const double ratio = std::exp(mean), a = static_cast<double>(b.advantage[i]), free = ratio * a,
                 held = std::fmin(std::fmax(ratio, 1 - static_cast<double>(low)), 1 + static_cast<double>(high)) * a;
    out.sum[0] -= w * std::fmin(free, held), out.sum[1] += free > held;
    scatter(b, i, free > held ? 0 : -w * free / n, gradient);
  }
  return out;
}

result gmpo(const batch& b, float low, float high, float* gradient) {
  result out;
  for (std::size_t i = 0; i < b.rows; ++i) {
    const double n = count(b, i), w = 1 / b.live_rows;
    if (n == 0) continue;
    const float a = b.advantage[i];
    const bool up = a > 0;
    const auto kept = [&](std::size_t at) {
      const floats x = load(b.logp + at) - load(b.old_logp + at);
      return up ? (x > high ? splat(high) : x) : (x < -low ? splat(-low) : x);
    };
    const double loss = -static_cast<double>(a) * std::exp(gather(b, i, kept) / n);
    out.sum[0] += w * loss;
    const floats slope = splat(static_cast<float>(w * loss / n));
    ints clipped{};
    for (std::size_t t = i * b.tokens; t < (i + 1) * b.tokens; t += lanes) {
      const floats x = load(b.logp + t) - load(b.old_logp + t);
      const ints live = load(b.mask + t) != 0.0f, held = up ? x > high : x < -low;
      store(gradient + t, live & ~held ? slope : floats{});
      clipped -= live & held;
    }
    out.sum[up ? 1 : 2] += total(clipped);
  }
  return out;
}

result dpo(const batch& b, double beta, float* gradient) {
  result out;
  const double w = 2 / static_cast<double>(b.rows);
  for (std::size_t i = 0; i < b.rows; i += 2) {
    const auto score = [&](std::size_t at) { return load(b.logp + at) - load(b.ref_logp + at); };
    const double chosen = gather(b, i, score), rejected = gather(b, i + 1, score), z = beta * (chosen - rejected),
                 slope = -beta * sigmoid(-z);
    out.sum[0] += w * softplus(-z);
    out.sum[1] += chosen > rejected, out.sum[2] += beta * chosen, out.sum[3] += beta * rejected;
    scatter(b, i, w * slope, gradient), scatter(b, i + 1, -w * slope, gradient);
  }
  return out;
}

result kto(const batch& b, double beta, double kl, const float* desirable, float* gradient) {
  result out;
  const double w = 1 / b.live_rows;
  for (std::size_t i = 0; i < b.rows; ++i) {
    const double u = gather(b, i, [&](std::size_t at) { return load(b.logp + at) - load(b.ref_logp + at); }),
                 sign = desirable[i] > 0 ? 1 : -1, s = sigmoid(sign * beta * (u - kl));
    out.sum[0] += w * (1 - s);
    out.sum[1] += sign > 0, out.sum[sign > 0 ? 2 : 3] += beta * u;
    scatter(b, i, -w * sign * beta * s * (1 - s), gradient);
  }
  return out;
}

result simpo(const batch& b, double beta, double margin, float* gradient) {
  result out;
  const double w = 2 / static_cast<double>(b.rows);
  for (std::size_t i = 0; i < b.rows; i += 2) {
    const auto score = [&](std::size_t at) { return load(b.logp + at); };
    const double n = count(b, i), m = count(b, i + 1), chosen = gather(b, i, score) / n,
                 rejected = gather(b, i + 1, score) / m, z = beta * (chosen - rejected) - margin,
                 slope = -beta * sigmoid(-z);
    out.sum[0] += w * softplus(-z);
    out.sum[1] += chosen > rejected, out.sum[2] += beta * chosen, out.sum[3] += beta * rejected;
    scatter(b, i, w * slope / n, gradient), scatter(b, i + 1, -w * slope / m, gradient);
  }
  return out;
}

result orpo(const batch& b, double beta, double chosen_tokens, float* gradient) {
  result out;
  const double w = 2 / static_cast<double>(b.rows);
  for (std::size_t i = 0; i < b.rows; i += 2) {
    const auto score = [&](std::size_t at) { return load(b.logp + at); };
    const double n = count(b, i), m = count(b, i + 1), sum = gather(b, i, score), chosen = sum / n,
                 rejected = gather(b, i + 1, score) / m,
                 odds = (chosen - rejected) - (log1mexp(chosen) - log1mexp(rejected)), slope = -beta * sigmoid(-odds);
    out.sum[0] += w * beta * softplus(-odds) - sum / chosen_tokens;
    out.sum[1] += chosen > rejected, out.sum[2] += beta * chosen, out.sum[3] += beta * rejected;
    out.sum[4] -= softplus(-odds), out.sum[5] += odds;
    scatter(b, i, w * slope / -std::expm1(chosen) / n - 1 / chosen_tokens, gradient);
    scatter(b, i + 1, -w * slope / -std::expm1(rejected) / m, gradient);
  }
  return out;
}

}  // namespace raw
