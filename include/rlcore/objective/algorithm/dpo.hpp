// DPO and its variants on preference pairs: cDPO, robust DPO, SLiC, IPO, EXO, NCA, BCO, SPPO, APO, DiscoPOP, AOT.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"
#include "rlcore/objective/piece/preference/pairwise.hpp"
#include "rlcore/objective/piece/preference/unpaired.hpp"
#include "rlcore/objective/piece/score.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// DPO (Rafailov et al. 2023): -log sigmoid(beta (chosen - rejected)) on sums of logp - ref_logp; the mean over pairs.
/// label_smoothing > 0 is cDPO (Mitchell 2023).
struct dpo_settings {
  positive beta = 0.1;
  double label_smoothing = 0.0;
};
/// The three parts of DPO with these settings. Throws std::invalid_argument unless label_smoothing is in [0, 1).
constexpr auto dpo(const dpo_settings& s = {}) {
  check_setting("dpo", "label_smoothing", s.label_smoothing, setting::below_1);
  return algorithm{no_advantage{},
                   sequence_objective{sum_of<log_ratio_to_reference>{},
                                      bradley_terry{.beta = s.beta, .smoothing = s.label_smoothing}},
                   pair_mean{}};
}

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

/// Robust DPO (Chowdhury et al. 2024): labels that are flipped with a known probability.
constexpr auto robust_dpo(robust_link link = {}) { return preference(link); }
/// SLiC (Zhao et al. 2023), RSO (Liu et al. 2024): a hinge loss.
constexpr auto slic(hinge_link link = {}) { return preference(link); }
/// On means, as the authors of IPO confirmed (and TRL computes); OpenRLHF's on sums is openrlhf::ipo().
constexpr auto ipo(ipo_link link = {}) { return length_averaged_preference(link); }
/// EXO for pairs (Ji et al. 2024).
constexpr auto exo(exo_pair_link link = {}) { return preference(link); }
/// NCA for two answers (Chen et al. 2024).
constexpr auto nca(nca_pair_link link = {}) { return preference(link); }
/// BCO on pairs, without a reward shift (Jung et al. 2024).
constexpr auto bco_pair(bco_pair_link link = {}) { return preference(link); }
/// SPPO (Wu et al. 2024) with probability 1 for the winner.
constexpr auto sppo_hard(sppo_hard_link link = {}) { return preference(link); }
/// APO-zero (D'Oosterlinck et al. 2024): the chosen answer up, the rejected one down.
constexpr auto apo_zero(apo_zero_link link = {}) { return preference(link); }
/// APO-down (D'Oosterlinck et al. 2024): both answers down, the rejected one more.
constexpr auto apo_down(apo_down_link link = {}) { return preference(link); }
/// DiscoPOP (Lu et al. 2024).
constexpr auto discopop(discopop_link link = {}) { return preference(link); }

/// AOT (Melnyk et al. 2024): sorts over all pairs of the step, which must therefore be one batch.
constexpr auto aot(aot_link link = {}) {
  return algorithm{no_advantage{}, sequence_objective{sum_of<log_prob>{}, link}, batch_total{}};
}
/// AOT on single rows (Melnyk et al. 2024): sorts over all rows of the step, which must therefore be one batch.
constexpr auto aot_unpaired(aot_unpaired_link link = {}) {
  return algorithm{no_advantage{}, sequence_objective{sum_of<log_ratio_to_reference>{}, link}, batch_total{}};
}

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
