// How tokens are sampled.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "rlcore/core/error.hpp"
#include "rlcore/device/device.hpp"

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
  sampling_arguments arguments() const noexcept { return {temperature, static_cast<extent_t>(top_k), top_p}; }
};

}  // namespace rollout
RLCORE_END
