// Rotary position embeddings (RoPE): settings, scaling and frequencies.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/elementary.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

/// plain: "default" of config.json. linear: positions divided (Chen et al. 2023). llama3: Llama 3.1's. yarn: Peng et
/// al. 2023.
enum class rope_type { plain, linear, llama3, yarn };

/// Names and meanings are those of config.json; 0: not set.
struct rope_settings {
  rope_type type = rope_type::plain;
  double factor = 1;                                  ///< length scaling factor, >= 1
  std::int64_t original_max_position_embeddings = 0;  ///< llama3, yarn: context length of pretraining
  double low_freq_factor = 1, high_freq_factor = 4;   ///< llama3
  double beta_fast = 0, beta_slow = 0;                ///< yarn; 0: 32 and 1
  double attention_factor = 0;                        ///< yarn: multiplies cos and sin; 0: computed from the others
  double mscale = 0, mscale_all_dim = 0;              ///< yarn: if both are set they determine attention_factor
  bool truncate = true;                               ///< yarn: rounds the ends of the frequency ramp to integers

  friend bool operator==(const rope_settings&, const rope_settings&) = default;
};

/// Throws config_error, naming the key of config.json, for invalid settings.
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

/// Component pair j of a head is rotated by position * inverse[j]; cos and sin are multiplied by attention_factor.
/// Rounds to float where `transformers` (modeling_rope_utils.py) rounds.
struct rope_frequencies {
  std::vector<float> inverse;
  float attention_factor = 1;
};

namespace detail {

/// theta^(2j/d): positions per radian.
std::vector<float> positions_per_radian(double theta, extent_t half);

/// Llama 3.1: divides frequencies with fewer than low_freq_factor turns within the original length by factor, keeps
/// those with more than high_freq_factor turns, and interpolates between.
void scale_as_llama3(std::vector<float>& inverse, const rope_settings& s);

/// 0.1 m ln(factor) + 1 for factors above 1 (Peng et al. 2023, eq. 22).
inline double yarn_attention(double factor, double m) {
  return factor <= 1 ? 1.0 : 0.1 * m * elementary::log(factor) + 1.0;
}

/// YaRN: pair j keeps its frequency if it makes beta_fast or more turns within the original length, divides it by
/// factor if it makes beta_slow or fewer, with a linear ramp between.
rope_frequencies yarn_frequencies(double theta, extent_t half, const rope_settings& s);

}  // namespace detail

/// For heads of 2 * half components: theta^(-2j/d), scaled according to `s`.
rope_frequencies make_rope_frequencies(double theta, extent_t half, const rope_settings& s);

}  // namespace nn

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_NN)
RLCORE_BEGIN
namespace nn::detail {

RLCORE_INLINE std::vector<float> positions_per_radian(double theta, extent_t half) {
  std::vector<float> w;
  for (extent_t j = 0; j < half; ++j)
    w.push_back(elementary::pow(static_cast<float>(theta), static_cast<float>(2 * j) / static_cast<float>(2 * half)));
  return w;
}

RLCORE_INLINE void scale_as_llama3(std::vector<float>& inverse, const rope_settings& s) {
  const auto length = static_cast<double>(s.original_max_position_embeddings);
  const auto longest = static_cast<float>(length / s.low_freq_factor),
             shortest = static_cast<float>(length / s.high_freq_factor);
  const auto low = static_cast<float>(s.low_freq_factor), factor = static_cast<float>(s.factor),
             width = static_cast<float>(s.high_freq_factor - s.low_freq_factor);
  for (float& f : inverse) {
    const float wavelength = static_cast<float>(2 * std::numbers::pi) / f;
    if (wavelength < shortest) continue;
    if (wavelength > longest) {
      f /= factor;
      continue;
    }
    const float smooth = (static_cast<float>(length) / wavelength - low) / width;
    f = (1 - smooth) * f / factor + smooth * f;
  }
}

RLCORE_INLINE rope_frequencies yarn_frequencies(double theta, extent_t half, const rope_settings& s) {
  const auto dimensions = static_cast<double>(2 * half);
  const auto turns_at = [&](double turns) {
    return dimensions *
           elementary::log(static_cast<double>(s.original_max_position_embeddings) / (turns * 2 * std::numbers::pi)) /
           (2 * elementary::log(theta));
  };
  double low = turns_at(s.beta_fast == 0 ? 32 : s.beta_fast), high = turns_at(s.beta_slow == 0 ? 1 : s.beta_slow);
  if (s.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, dimensions - 1);
  if (low == high) high += 0.001;
  rope_frequencies r;
  for (extent_t j = 0; const float positions : positions_per_radian(theta, half)) {
    const float ramp =
        std::clamp((static_cast<float>(j++) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f, 1.0f);
    const float kept = 1 - ramp;
    r.inverse.push_back(1.0f / (static_cast<float>(s.factor) * positions) * (1 - kept) + 1.0f / positions * kept);
  }
  r.attention_factor =
      static_cast<float>(s.attention_factor != 0 ? s.attention_factor
                         : s.mscale != 0 && s.mscale_all_dim != 0
                             ? yarn_attention(s.factor, s.mscale) / yarn_attention(s.factor, s.mscale_all_dim)
                             : yarn_attention(s.factor, 1));
  return r;
}

}  // namespace nn::detail

namespace nn {

RLCORE_INLINE rope_frequencies make_rope_frequencies(double theta, extent_t half, const rope_settings& s) {
  if (s.type == rope_type::yarn) return detail::yarn_frequencies(theta, half, s);
  rope_frequencies r;
  for (const float positions : detail::positions_per_radian(theta, half)) r.inverse.push_back(1.0f / positions);
  if (s.type == rope_type::llama3) detail::scale_as_llama3(r.inverse, s);
  if (s.type == rope_type::linear)
    for (float& f : r.inverse) f /= static_cast<float>(s.factor);
  return r;
}

}  // namespace nn
RLCORE_END
#endif
