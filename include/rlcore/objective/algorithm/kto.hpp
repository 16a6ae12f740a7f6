// KTO, BCO and APO-zero: unpaired preferences.
#pragma once

#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"
#include "rlcore/objective/piece/preference/unpaired.hpp"
#include "rlcore/objective/piece/score.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// KTO (Ethayarajh et al. 2024) on rows whose field::target is 1 (desirable) or 0; the mean over rows, those
/// without a token included. The baseline is that of the step: kto({.kl = mismatched_kl.baseline()}).
constexpr auto kto(kto_link link) {
  return algorithm{no_advantage{}, sequence_objective{sum_of<log_ratio_to_reference>{}, link}, row_mean{}};
}
/// BCO (Jung et al. 2024), with the running mean of all rewards as its shift: bco(bco_link{shift}).
constexpr auto bco(bco_link link) {
  return algorithm{no_advantage{}, sequence_objective{sum_of<log_ratio_to_reference>{}, link}, row_mean{}};
}
/// APO-zero (D'Oosterlinck et al. 2024) on single rows.
constexpr auto apo_zero_unpaired(apo_zero_unpaired_link link = {}) {
  return algorithm{no_advantage{}, sequence_objective{sum_of<log_ratio_to_reference>{}, link}, row_mean{}};
}

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
