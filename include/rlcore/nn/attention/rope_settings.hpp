// Rotary positions beyond the length that a model was trained on first: `rope_scaling` of config.json.
#pragma once

#include <cstdint>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace nn {

/// plain: "default" of config.json. linear: positions divided (Chen et al. 2023). llama3: Llama 3.1's. yarn: Peng et
/// al. 2023. What each computes is in rope_frequencies.hpp.
enum class rope_type { plain, linear, llama3, yarn };

/// Names and meanings are those of config.json; 0 is a number that it does not give.
struct rope_settings {
  rope_type type = rope_type::plain;
  double factor = 1;                                  ///< of the length, >= 1
  std::int64_t original_max_position_embeddings = 0;  ///< llama3, yarn: the length of the first training
  double low_freq_factor = 1, high_freq_factor = 4;   ///< llama3
  double beta_fast = 0, beta_slow = 0;                ///< yarn; 0: 32 and 1
  double attention_factor = 0;                        ///< yarn: multiplies cos and sin; 0: a function of the others
  double mscale = 0, mscale_all_dim = 0;              ///< yarn: if both are given they set attention_factor
  bool truncate = true;  ///< yarn: the ramp between the frequencies begins and ends at whole numbers

  friend bool operator==(const rope_settings&, const rope_settings&) = default;
};

/// Throws config_error, naming the key of config.json, for numbers that give no frequencies.
inline void check_settings(const rope_settings& s) {
  const auto require_that = [](bool holds, const char* key, const char* expected) {
    if (!holds) throw config_error(std::string("model config: rope_scaling: ") + key + " must be " + expected);
  };
  if (s.type == rope_type::plain) return;
  require_that(s.factor >= 1, "factor", "at least 1");
  if (s.type == rope_type::linear) return;
  require_that(s.original_max_position_embeddings > 0, "original_max_position_embeddings", "positive");
  if (s.type == rope_type::llama3) {
    require_that(s.low_freq_factor > 0, "low_freq_factor", "positive");
    require_that(s.high_freq_factor > s.low_freq_factor, "high_freq_factor", "above low_freq_factor");
    return;
  }
  require_that(s.beta_fast >= 0, "beta_fast", "positive");
  require_that(s.beta_slow >= 0, "beta_slow", "positive");
  require_that(s.attention_factor >= 0, "attention_factor", "positive");
}

}  // namespace nn
RLCORE_END
