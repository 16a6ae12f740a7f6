// Log-prob and entropy of one row of logits in one pass over memory, and their gradient.
#include <cmath>

#include "raw/lanes.hpp"

namespace raw {
namespace {

floats load_some(const float* p, std::size_t left, float rest) {
  if (left >= lanes) return load(p);
  float x[lanes];
  for (std::size_t k = 0; k < lanes; ++k) x[k] = k < left ? p[k] : rest;
  return load(x);
}
double total(floats x) {
  double sum = 0;
  for (std::size_t k = 0; k < lanes; ++k) sum += static_cast<double>(x[k]);
  return sum;
}

}  // namespace

void log_prob(const float* logits, std::size_t vocabulary, std::size_t target, float* logp, float* entropy,
              float* statistics) {
  constexpr std::size_t block = 1024;
  double sum = 0, weighted = 0;  // of e^(z - top) and e^(z - top) (z - top)
  float top = -__builtin_inff();
  for (std::size_t from = 0; from < vocabulary; from += block) {
    const std::size_t to = from + block < vocabulary ? from + block : vocabulary;
    floats high = splat(-__builtin_inff());
    for (std::size_t j = from; j < to; j += lanes) {
      const floats z = load_some(logits + j, vocabulary - j, -__builtin_inff());
      high = z > high ? z : high;
    }
    float above = top;
    for (std::size_t k = 0; k < lanes; ++k) above = high[k] > above ? high[k] : above;
    if (above > top) {
      const double by = static_cast<double>(top) - static_cast<double>(above), scale = std::exp(by);
      if (sum > 0) weighted = scale * (weighted + by * sum), sum *= scale;
      top = above;
    }
    floats e_sum[4] = {}, ez_sum[4] = {};
    for (std::size_t j = from, k = 0; j < to; j += lanes, ++k) {
      const floats z = load_some(logits + j, vocabulary - j, -__builtin_inff()) - top, e = exp(z);
      e_sum[k % 4] += e, ez_sum[k % 4] += e > 0.0f ? e * z : floats{};
    }
    sum += total((e_sum[0] + e_sum[1]) + (e_sum[2] + e_sum[3]));
    weighted += total((ez_sum[0] + ez_sum[1]) + (ez_sum[2] + ez_sum[3]));
  }
  const double log_sum = std::log(sum);
  *logp = static_cast<float>(static_cast<double>(logits[target]) - static_cast<double>(top) - log_sum);
  *entropy = static_cast<float>(log_sum - weighted / sum);
  statistics[0] = top, statistics[1] = static_cast<float>(log_sum);
}

void log_prob_backward(float* logits, std::size_t vocabulary, std::size_t target, float dlogp, float dentropy,
                       float entropy, const float* statistics) {
  const float top = statistics[0], log_sum = statistics[1], inverse = std::exp(-log_sum), shift = entropy - log_sum;
  for (std::size_t j = 0; j < vocabulary; j += lanes) {
    const std::size_t left = vocabulary - j;
    const floats z = load_some(logits + j, left, -__builtin_inff()) - top, p = exp(z) * inverse,
                 slope = p > 0.0f ? -p * (dlogp + dentropy * (z + shift)) : floats{};
    if (left >= lanes)
      store(logits + j, slope);
    else
      for (std::size_t k = 0; k < left; ++k) logits[j + k] = slope[k];
  }
  logits[target] += dlogp;
}

}  // namespace raw
