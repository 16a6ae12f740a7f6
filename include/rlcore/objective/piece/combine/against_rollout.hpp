// A surrogate whose ratio is to the policy that sampled.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/score/gather.hpp"

RLCORE_BEGIN

template <class Piece>
struct against_rollout;

namespace detail {
template <class Gather>
struct gather_against_rollout {
  using type = Gather;
};
template <template <class> class Gather, class Score>
requires(contains(Score::reads, field::old_logp)) struct gather_against_rollout<Gather<Score>> {
  using type = Gather<against_rollout<Score>>;
};

template <class Gather>
constexpr field gathered_reads() noexcept {
  if constexpr (requires { Gather::score::reads; })
    return Gather::score::reads;
  else
    return field::none;
}
template <class P>
inline constexpr field all_reads = P::reads | gathered_reads<gathers_of<P>>();
}  // namespace detail

/// against_rollout{piece}: the piece with rollout_logp for old_logp, so that one ratio corrects both for the steps
/// since the rollout and for the sampler's own arithmetic (verl's bypass mode; OpenRLHF's GSPO with correction). There
/// is no old_logp in such a batch, and no weight: weighted{against_rollout{...}} would correct twice and does not
/// compile.
template <class Piece>
struct against_rollout {
  static_assert(!composite_piece<Piece>,
                "rlcore: against_rollout holds one piece; write sum{against_rollout{a}, b}, not "
                "against_rollout{sum{a, b}}");
  static_assert(contains(detail::all_reads<Piece>, field::old_logp),
                "rlcore: against_rollout replaces old_logp by rollout_logp, but this piece does not read old_logp");
  static_assert(!contains(detail::all_reads<Piece>, field::weight),
                "rlcore: a ratio to the rollout policy corrects already; leave weighted{} out of against_rollout{}");
  static_assert(!contains(detail::all_reads<Piece>, field::rollout_logp),
                "rlcore: this piece has a ratio to the rollout policy already");
  static constexpr field reads = [] {
    const auto all = static_cast<unsigned>(Piece::reads), old = static_cast<unsigned>(field::old_logp);
    return contains(Piece::reads, field::old_logp) ? static_cast<field>(all & ~old) | field::rollout_logp
                                                   : Piece::reads;
  }();
  static constexpr field wrt = wrt_of<Piece>();
  static constexpr std::string_view name = Piece::name;
  static constexpr auto monitors = monitors_of<Piece>();
  static constexpr bool stops_gradient = [] {
    if constexpr (requires { Piece::stops_gradient; })
      return Piece::stops_gradient;
    else
      return false;
  }();
  static constexpr bool per_sequence = [] {
    if constexpr (requires { Piece::per_sequence; })
      return Piece::per_sequence;
    else
      return false;
  }();
  using gathers = typename detail::gather_against_rollout<gathers_of<Piece>>::type;
  [[no_unique_address]] Piece piece{};

  constexpr against_rollout() = default;
  constexpr explicit against_rollout(Piece p) : piece(p) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Piece>> operator()(const token<V>& t) const noexcept {
    token<V> seen = t;
    seen.old_logp = t.rollout_logp;
    return piece.template operator()<Math, V>(seen);
  }
};

RLCORE_END
