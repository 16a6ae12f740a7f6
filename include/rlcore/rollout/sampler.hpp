// One token from a row of logits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace rollout {

/// How a token is drawn: softmax(logits / temperature), cut to the top_k most likely and then to the smallest set whose
/// probability reaches top_p, renormalised. vLLM's order and conventions: top_k <= 0 is off, temperature 0 is greedy.
struct sampling {
  float temperature = 1;
  std::int64_t top_k = -1;
  float top_p = 1;

  bool greedy() const noexcept { return temperature == 0; }
  /// Throws config_error naming the offending setting.
  void validate() const {
    if (!(temperature >= 0) || !std::isfinite(temperature))
      throw config_error("temperature=" + std::to_string(temperature) + " must be 0 (greedy) or a positive number");
    if (!(top_p > 0 && top_p <= 1)) throw config_error("top_p=" + std::to_string(top_p) + " must lie in (0, 1]");
  }
};

/// Draws tokens; a pure function of (logits, settings, uniform number). Keeps scratch between calls, so one per thread.
class sampler {
 public:
  /// Inverse-CDF draw with u in [0, 1). Candidates are walked in order of their id when the support is the whole
  /// vocabulary and in order of falling probability (ties: smaller id first) when top_k or top_p cut it.
  std::int32_t operator()(std::span<const float> logits, const sampling& how, double u) {
    if (how.greedy()) return argmax(logits);
    const float largest = *std::max_element(logits.begin(), logits.end());
    const bool whole = (how.top_k <= 0 || how.top_k >= std::ssize(logits)) && how.top_p >= 1;
    weight_.resize(logits.size());
    order_.resize(logits.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::size_t kept = logits.size();
    if (!whole) {
      if (how.top_k > 0) kept = std::min(kept, static_cast<std::size_t>(how.top_k));
      std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(kept), order_.end(),
                        [&](std::int32_t a, std::int32_t b) {
                          const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
                          return x > y || (x == y && a < b);
                        });
    }
    double total = 0;
    for (std::size_t i = 0; i < kept; ++i) {
      const float z = logits[static_cast<std::size_t>(order_[i])];
      weight_[i] = std::exp((z - largest) / how.temperature);
      total += static_cast<double>(weight_[i]);
    }
    if (!whole && how.top_p < 1) {
      const double enough = total * static_cast<double>(how.top_p);
      double reached = 0;
      std::size_t i = 0;
      while (i < kept && reached < enough) reached += static_cast<double>(weight_[i++]);
      kept = std::max<std::size_t>(i, 1);
      total = reached;
    }
    const double goal = u * total;
    double reached = 0;
    std::size_t last = 0;
    for (std::size_t i = 0; i < kept; ++i) {
      if (weight_[i] == 0) continue;
      last = i;
      reached += static_cast<double>(weight_[i]);
      if (reached > goal) break;
    }
    return order_[last];
  }

  static std::int32_t argmax(std::span<const float> logits) {
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }

 private:
  std::vector<float> weight_;
  std::vector<std::int32_t> order_;
};

}  // namespace rollout
RLCORE_END
