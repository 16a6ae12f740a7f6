// Clipped importance-sampling weights instead of clipped objectives.
#pragma once

#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation/token_mean.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/piece/surrogate/cispo.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// CISPO (MiniMax-M1, 2025): group_relative{}; the policy gradient times the bounded, constant ratio; the mean over all
/// tokens. The bound is ScaleRL's (Khatri et al. 2025); MiniMax-M1 does not print its own.
struct cispo_settings {
  rlcore::cispo surrogate{ratio_bound{.high = 5}};
};
/// The three parts of CISPO with these settings. Throws std::invalid_argument for bounds that are no numbers or not in
/// order.
constexpr auto cispo(const cispo_settings& s = {}) { return algorithm{group_relative{}, s.surrogate, token_mean{}}; }

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
