// A surrogate whose ratio is to the policy that sampled.
#pragma once

#include <type_traits>

#include "rlcore/objective/piece/combine/passes_on.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
template <class Piece>
struct rollout_is;

namespace detail {
template <class Gather>
struct gather_rollout_is {
  using type = Gather;
};
template <template <class> class Gather, class Score>
requires(contains(Score::reads, field::old_logp)) struct gather_rollout_is<Gather<Score>> {
  using type = Gather<rollout_is<Score>>;
};
}  // namespace detail

/// rollout_is{piece}: the piece with rollout_logp for old_logp, so that one ratio corrects both for the steps
/// since the rollout and for the sampler's own arithmetic (verl's bypass mode; OpenRLHF's GSPO with correction). There
/// is no old_logp in such a batch, and no weight: weighted{rollout_is{...}} would correct twice and does not
/// compile.
template <class Piece>
struct rollout_is : passes_on<Piece> {
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
  constexpr explicit rollout_is(Piece p) : passes_on<Piece>(p) {}
  constexpr auto score() const noexcept requires(!std::is_same_v<gathers, no_gather>) {
    return typename gathers::score(score_of(this->piece));
  }

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Piece>> operator()(const token<V>& t) const noexcept {
    token<V> seen = t;
    seen.old_logp = t.rollout_logp;
    return this->piece.template operator()<Math, V>(seen);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
