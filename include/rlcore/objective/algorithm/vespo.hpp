// The policy gradient with a gamma-shaped weight of the sequence ratio.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation/token_mean.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/piece/surrogate/vespo.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// VESPO (2026; the defaults are TRL's): group_relative{}; policy gradient weighted by w^k e^(lambda (1 - w)) of the
/// sequence's ratio w; the mean over all tokens.
struct vespo_settings {
  double k_positive = 2.0, lambda_positive = 3.0, k_negative = 3.0, lambda_negative = 2.0;
};
/// The three parts of VESPO with these settings. Throws std::invalid_argument for a setting that is negative or not
/// finite.
constexpr auto vespo(const vespo_settings& s = {}) {
  check_setting("vespo", "k_positive", s.k_positive, setting::coefficient);
  check_setting("vespo", "lambda_positive", s.lambda_positive, setting::coefficient);
  check_setting("vespo", "k_negative", s.k_negative, setting::coefficient);
  check_setting("vespo", "lambda_negative", s.lambda_negative, setting::coefficient);
  return algorithm{group_relative{},
                   rlcore::vespo{.k_positive = s.k_positive,
                                 .lambda_positive = s.lambda_positive,
                                 .k_negative = s.k_negative,
                                 .lambda_negative = s.lambda_negative},
                   token_mean{}};
}

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
