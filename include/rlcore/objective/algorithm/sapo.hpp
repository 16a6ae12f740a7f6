// Soft Adaptive Policy Optimization.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation/sequence_mean_token_mean.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/piece/surrogate/sapo.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

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
