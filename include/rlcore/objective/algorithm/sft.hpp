// SFT, DFT: negative log-likelihood of given tokens.
#pragma once

#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/piece/supervised.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// SFT: the negative log-likelihood, averaged over all trained tokens of the optimizer step (not over micro-batch
/// means). Label smoothing, z-loss and softcap look at all logits: cross_entropy with evaluate_logits.
constexpr auto sft() { return algorithm{no_advantage{}, negative_log_likelihood{}, token_mean{}}; }

/// DFT (Wu et al. 2025): SFT with each token weighted by the model's probability of it.
constexpr auto dft() { return algorithm{no_advantage{}, rlcore::dft{}, token_mean{}}; }

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
