// Piece wrappers: against_old and rollout_is (another policy's log-probs), token filters.
#pragma once

#include <cstddef>
#include <type_traits>

#include "rlcore/objective/piece/combine/sum.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// against_old{divergence}: a divergence that is made for ref_logp, taken to old_logp instead.
///
/// sum{policy_gradient{}, scaled{beta, against_old{k2{}}}} is DRO (Richemond et al. 2024; verl "dro"):
/// -A logp + beta/2 (logp - old_logp)^2. sum{importance_ratio{}, scaled{kappa, token_filter{against_old{abs_kl{}}}}}
/// is KL-Cov (Cui et al. 2025; verl "kl_cov"): -A r, and + kappa |logp - old_logp| for the selected tokens.
template <class Divergence>
struct against_old : forwarding_piece<Divergence> {
  static_assert(contains(Divergence::reads, field::ref_logp), "rlcore: against_old takes a piece that reads ref_logp");
  static constexpr field reads =
      static_cast<field>(static_cast<unsigned>(Divergence::reads) & ~static_cast<unsigned>(field::ref_logp)) |
      field::old_logp;
  static constexpr std::string_view name = "kl_to_old";

  /// The divergence `d`, from old_logp.
  constexpr explicit against_old(Divergence d) : forwarding_piece<Divergence>(d) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Divergence>> operator()(const token<V>& t) const noexcept {
    token<V> shown = t;
    shown.ref_logp = t.old_logp;
    return this->piece.template operator()<Math, V>(shown);
  }
};

template <class Piece>
struct rollout_is;

namespace detail {
template <class Gather>
struct gather_rollout_is {
  using type = Gather;
};
template <template <class> class Gather, class Score>
  requires(contains(Score::reads, field::old_logp))
struct gather_rollout_is<Gather<Score>> {
  using type = Gather<rollout_is<Score>>;
};
}  // namespace detail

/// rollout_is{piece}: the piece with rollout_logp for old_logp, so that one ratio corrects both for the steps since the
/// rollout and for the sampler's own arithmetic (verl's bypass mode; OpenRLHF's GSPO with correction). Such a batch has
/// no old_logp and no weight: weighted{rollout_is{...}} would correct twice and does not compile.
template <class Piece>
struct rollout_is : forwarding_piece<Piece> {
  static_assert(contains(reads_in_all<Piece>(), field::old_logp),
                "rlcore: rollout_is replaces old_logp by rollout_logp, but this piece does not read old_logp");
  static_assert(!contains(reads_in_all<Piece>(), field::weight),
                "rlcore: a ratio to the rollout policy corrects already; leave weighted{} out of rollout_is{}");
  static_assert(!contains(reads_in_all<Piece>(), field::rollout_logp),
                "rlcore: this piece has a ratio to the rollout policy already");
  static constexpr field reads =
      contains(Piece::reads, field::old_logp)
          ? static_cast<field>(static_cast<unsigned>(Piece::reads) & ~static_cast<unsigned>(field::old_logp)) |
                field::rollout_logp
          : Piece::reads;
  static constexpr bool unit_slope = requires { requires Piece::unit_slope; };
  using gathers = typename detail::gather_rollout_is<gathers_of<Piece>>::type;

  constexpr rollout_is() = default;
  /// The piece `p` with its ratio to the rollout policy.
  constexpr explicit rollout_is(Piece p) : forwarding_piece<Piece>(p) {}
  constexpr auto score() const noexcept
    requires(!std::is_same_v<gathers, no_gather>)
  {
    return typename gathers::score(score_of(this->piece));
  }

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Piece>> operator()(const token<V>& t) const noexcept {
    token<V> seen = t;
    seen.old_logp = t.rollout_logp;
    return this->piece.template operator()<Math, V>(seen);
  }
};

/// token_filter{piece}: value and slope where field::selected is not 0, and exactly 0 elsewhere, whatever the piece
/// returns. The tokens left out still count in every denominator. Monitors are not masked.
///
/// The high-entropy mask (Wang et al. 2025; TRL top_entropy_quantile) and the off-policy sequence mask (DeepSeek-V3.2;
/// TRL off_policy_mask_threshold) are this around a surrogate, with the selection of the same name. Where several
/// masks apply, `selected` is their product.
template <class Piece>
struct token_filter : forwarding_piece<Piece> {
  static constexpr field reads = Piece::reads | field::selected;

  /// The piece `p` on the selected tokens.
  constexpr explicit token_filter(Piece p) : forwarding_piece<Piece>(p) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Piece>> operator()(const token<V>& t) const noexcept {
    auto result = this->piece.template operator()<Math, V>(t);
    const auto out = t.selected == V(0);
    result.value = Math::select(out, V(0), result.value);
    result.slope = Math::select(out, V(0), result.slope);
    return result;
  }
};

/// except_selected{piece}: value and slope where field::selected is 0, and exactly 0 elsewhere. Around a ppo_clip
/// it is Clip-Cov (Cui et al. 2025; verl "clip_cov"), which takes a few tokens of high covariance between advantage and
/// log-prob out of the update.
template <class Piece>
struct except_selected : forwarding_piece<Piece> {
  static constexpr field reads = Piece::reads | field::selected;

  /// The piece `p` on the tokens that are not selected.
  constexpr explicit except_selected(Piece p) : forwarding_piece<Piece>(p) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Piece>> operator()(const token<V>& t) const noexcept {
    auto result = this->piece.template operator()<Math, V>(t);
    const auto out = t.selected != V(0);
    result.value = Math::select(out, V(0), result.value);
    result.slope = Math::select(out, V(0), result.slope);
    return result;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
