// Any surrogate on the ratio of the whole sequence instead of the token's.
#pragma once

#include "rlcore/objective/piece/combine/passes_on.hpp"
#include "rlcore/objective/piece/score/scores.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// sequence_is{surrogate}: each token is shown s = exp(mean over its row of logp - old_logp) as its ratio, and
/// the slope by s is given to the token itself: log s = logp - stop_gradient(logp - mean). With ppo_clip this is
/// GSPO-token (Zheng et al. 2025, section 4.3; verl "gspo" under any loss_agg_mode, TRL "sequence_token"): advantages
/// and weights may differ from token to token, and any aggregation makes sense. Where they differ this is verl's form,
/// not that of OpenRLHF and TRL's "sequence", which differentiate s and so give every token the mean over its row.
///
/// With one advantage per row, sequence_mean_token_mean gives the loss and gradient of GSPO itself; say so with
/// one_per_sequence. sequence_mean_token_sum gives LUSPO (TRL, Liger "luspo"): each sequence's term times its length.
///
/// A surrogate that holds its ratio constant (cispo) keeps the token's own logp as the factor that has the gradient.
/// rollout_is{sequence_is{surrogate}} gathers the ratio to the rollout policy.
template <class Surrogate>
struct sequence_is : passes_on<Surrogate> {
  static_assert(!contains(Surrogate::reads, field::gathered), "rlcore: this surrogate gathers over its row already");
  static_assert(contains(Surrogate::reads, field::old_logp),
                "rlcore: sequence_is holds a surrogate that reads old_logp; this one has no ratio that could be "
                "the sequence's (for a ratio to the rollout write rollout_is{sequence_is{surrogate}})");
  static_assert(!contains(Surrogate::reads, field::ref_logp),
                "rlcore: sequence_is shows a surrogate the ratio of its row in place of logp, so one that also "
                "compares logp with ref_logp is not for it");
  static_assert(!reads_probabilities_of<Surrogate>(),
                "rlcore: this surrogate looks at the probabilities of single tokens (DPPO), and sequence_is has "
                "only the ratio of the row to show");
  static constexpr bool keeps_logp = stops_gradient_of<Surrogate>();
  static constexpr field reads = static_cast<field>(static_cast<unsigned>(Surrogate::reads) &
                                                    ~static_cast<unsigned>(field::logp | field::old_logp)) |
                                 (keeps_logp ? field::logp : field::none) | field::gathered;
  using gathers = mean_of<log_ratio_to_old>;

  /// The surrogate `s` on the ratio of the row.
  constexpr explicit sequence_is(Surrogate s) : passes_on<Surrogate>(s) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Surrogate>> operator()(const token<V>& t) const noexcept {
    token<V> shown = t;
    if constexpr (keeps_logp) {
      shown.old_logp = t.logp - t.gathered;
    } else {
      shown.logp = t.gathered;
      shown.old_logp = V(0);
    }
    return this->piece.template operator()<Math, V>(shown);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
