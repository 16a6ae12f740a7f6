// Settings of sampling, and the log-probability of a token.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/rollout/logit_rules.hpp"

RLCORE_BEGIN
namespace rollout {

/// Draws from softmax(logits / temperature), without the tokens less likely than min_p times the most likely one,
/// truncated to the top_k most likely and then to the smallest set whose probability reaches top_p, renormalised.
/// vLLM's order and conventions: top_k <= 0 and min_p 0 are off, temperature 0 is greedy. Any nonzero temperature is at
/// least 1e-5, so that logits / temperature are finite.
struct sampling {
  float temperature = 1;
  std::int64_t top_k = -1;
  float top_p = 1;
  float min_p = 0;

  /// The smallest temperature that is not greedy.
  static constexpr float least_temperature = 1e-5f;

  bool greedy() const noexcept { return temperature == 0; }
  /// Throws config_error naming the offending setting.
  void validate() const {
    if (!greedy() && (!(temperature >= least_temperature) || !std::isfinite(temperature)))
      throw config_error("temperature=" + float_text(temperature) + " must be 0 (greedy) or at least 1e-05");
    if (top_k < -1) throw config_error("top_k=" + std::to_string(top_k) + " must be -1 (all tokens) or more");
    if (!(top_p > 0 && top_p <= 1)) throw config_error("top_p=" + std::to_string(top_p) + " must lie in (0, 1]");
    if (!(min_p >= 0 && min_p <= 1)) throw config_error("min_p=" + std::to_string(min_p) + " must lie in [0, 1]");
  }
  sampling_arguments arguments() const noexcept { return {temperature, static_cast<extent_t>(top_k), top_p, min_p}; }
  bool operator==(const sampling&) const = default;
};

/// The temperature that vLLM uses for a requested t >= 0: 0 (greedy) below 1e-5, at least 0.01 otherwise.
inline float vllm_temperature(float t) noexcept {
  if (!(t >= 0 && t < 0.01f)) return t;
  return t < sampling::least_temperature ? 0.0f : 0.01f;
}

/// A token and its log-prob.
struct token_logprob {
  std::int32_t token = 0;
  float logp = 0;
};

}  // namespace rollout
RLCORE_END
