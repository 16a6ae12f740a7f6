// The relatives of DPO on pairs: another link on the same scores.
#pragma once

#include "rlcore/objective/aggregation/sequence_mean.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"
#include "rlcore/objective/piece/preference/aot_link.hpp"
#include "rlcore/objective/piece/preference/aot_unpaired_link.hpp"
#include "rlcore/objective/piece/preference/apo_down_link.hpp"
#include "rlcore/objective/piece/preference/apo_zero_link.hpp"
#include "rlcore/objective/piece/preference/bco_pair_link.hpp"
#include "rlcore/objective/piece/preference/bradley_terry.hpp"
#include "rlcore/objective/piece/preference/discopop_link.hpp"
#include "rlcore/objective/piece/preference/exo_pair_link.hpp"
#include "rlcore/objective/piece/preference/hinge_link.hpp"
#include "rlcore/objective/piece/preference/ipo_link.hpp"
#include "rlcore/objective/piece/preference/nca_pair_link.hpp"
#include "rlcore/objective/piece/preference/robust_link.hpp"
#include "rlcore/objective/piece/preference/sppo_hard_link.hpp"
#include "rlcore/objective/piece/score/scores.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// Any pair link on sums of logp - ref_logp, averaged over pairs. Each link says its formula and source; its settings
/// are its members: preference(robust_link{.beta = 0.1, ...}).
template <class Link>
constexpr auto preference(Link link) {
  return algorithm{no_advantage{}, sequence_objective{sum_of<log_ratio_to_reference>{}, link}, pair_mean{}};
}
/// The same on means: every token of a sequence counts less the longer it is.
template <class Link>
constexpr auto length_averaged_preference(Link link) {
  return algorithm{no_advantage{}, sequence_objective{mean_of<log_ratio_to_reference>{}, link}, pair_mean{}};
}

constexpr auto robust_dpo(robust_link link = {}) { return preference(link); }
constexpr auto slic(hinge_link link = {}) { return preference(link); }
/// On means, as the authors of IPO confirmed (and TRL computes); OpenRLHF's on sums is openrlhf::ipo().
constexpr auto ipo(ipo_link link = {}) { return length_averaged_preference(link); }
constexpr auto exo(exo_pair_link link = {}) { return preference(link); }
constexpr auto nca(nca_pair_link link = {}) { return preference(link); }
constexpr auto bco_pair(bco_pair_link link = {}) { return preference(link); }
constexpr auto sppo_hard(sppo_hard_link link = {}) { return preference(link); }
constexpr auto apo_zero(apo_zero_link link = {}) { return preference(link); }
constexpr auto apo_down(apo_down_link link = {}) { return preference(link); }
constexpr auto discopop(discopop_link link = {}) { return preference(link); }

/// AOT (Melnyk et al. 2024): sorts over all pairs of the step, which therefore has to be one batch.
constexpr auto aot(aot_link link = {}) {
  return algorithm{no_advantage{}, sequence_objective{sum_of<log_prob>{}, link}, batch_total{}};
}
constexpr auto aot_unpaired(aot_unpaired_link link = {}) {
  return algorithm{no_advantage{}, sequence_objective{sum_of<log_ratio_to_reference>{}, link}, batch_total{}};
}

}  // namespace paper
RLCORE_ALGORITHM_END
RLCORE_END
