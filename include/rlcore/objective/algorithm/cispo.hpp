// CISPO, SAPO: clipping that keeps a gradient.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// CISPO (MiniMax-M1, 2025): group_relative{}; the policy gradient times the bounded, constant ratio; the mean over all
/// tokens. The bound is ScaleRL's (Khatri et al. 2025); MiniMax-M1 does not publish its own.
struct cispo_settings {
  rlcore::cispo surrogate{ratio_bound{.high = 5}};
};
/// The three parts of CISPO with these settings. Throws std::invalid_argument for bounds that are NaN or not in order.
constexpr auto cispo(const cispo_settings& s = {}) { return algorithm{group_relative{}, s.surrogate, token_mean{}}; }

/// SAPO (Gao et al. 2025): group_relative{}; a sigmoid gate on the ratio, sharper for negative advantages; the mean
/// over sequences of token means.
struct sapo_settings {
  double temperature_positive = 1.0, temperature_negative = 1.05;
};
/// The three parts of SAPO with these settings. Throws std::invalid_argument unless both temperatures are above 0.
constexpr auto sapo(const sapo_settings& s = {}) {
  check_setting("sapo", "temperature_positive", s.temperature_positive, setting::positive);
  check_setting("sapo", "temperature_negative", s.temperature_negative, setting::positive);
  return algorithm{
      group_relative{},
      rlcore::sapo{.temperature_positive = s.temperature_positive, .temperature_negative = s.temperature_negative},
      sequence_mean_token_mean{}};
}

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
