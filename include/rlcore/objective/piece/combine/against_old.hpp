// Divergences from the policy at the start of the step.
#pragma once

#include "rlcore/objective/piece/combine/passes_on.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// against_old{divergence}: a divergence that is made for ref_logp, taken to old_logp instead.
///
/// sum{policy_gradient{}, scaled{beta, against_old{k2{}}}} is DRO (Richemond et al. 2024; verl "dro"):
/// -A logp + beta/2 (logp - old_logp)^2. sum{importance_ratio{}, scaled{kappa, token_filter{against_old{abs_kl{}}}}}
/// is KL-Cov (Cui et al. 2025; verl "kl_cov"): -A r, and + kappa |logp - old_logp| for the selected tokens.
template <class Divergence>
struct against_old : passes_on<Divergence> {
  static_assert(contains(Divergence::reads, field::ref_logp), "rlcore: against_old takes a piece that reads ref_logp");
  static constexpr field reads =
      static_cast<field>(static_cast<unsigned>(Divergence::reads) & ~static_cast<unsigned>(field::ref_logp)) |
      field::old_logp;
  static constexpr std::string_view name = "kl_to_old";

  /// The divergence `d`, from old_logp.
  constexpr explicit against_old(Divergence d) : passes_on<Divergence>(d) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Divergence>> operator()(const token<V>& t) const noexcept {
    token<V> shown = t;
    shown.ref_logp = t.old_logp;
    return this->piece.template operator()<Math, V>(shown);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
