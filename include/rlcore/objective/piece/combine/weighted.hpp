// Off-policy correction: a piece times the constant per-token weight.
#pragma once

#include <string_view>
#include <type_traits>

#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/score/gather.hpp"

RLCORE_BEGIN
namespace detail {

/// What P reads, by itself or through what it gathers.
template <class P>
constexpr field reads_in_all() noexcept {
  if constexpr (std::is_same_v<gathers_of<P>, no_gather>)
    return P::reads;
  else
    return P::reads | gathers_of<P>::score::reads;
}

template <class P>
constexpr bool stops_the_gradient() noexcept {
  if constexpr (requires { P::stops_gradient; })
    return P::stops_gradient;
  else
    return false;
}

}  // namespace detail

/// weighted{piece}: value and slope times field::weight, after the piece's own clipping (verl's order). Monitors are
/// not weighted. A piece that has a ratio to the rollout policy, or a weight inside, is corrected already.
template <class Piece>
struct weighted {
  static_assert(!composite_piece<Piece>,
                "rlcore: weighted holds one piece; write sum{weighted{a}, weighted{b}}, not weighted{sum{a, b}}");
  static_assert(
      !contains(detail::reads_in_all<Piece>(), field::rollout_logp),
      "rlcore: this piece has a ratio to rollout_logp, so a weight would correct twice; use the piece without "
      "weighted{}, or a ratio to old_logp with it");
  static_assert(!contains(detail::reads_in_all<Piece>(), field::weight),
                "rlcore: this piece applies field::weight itself; leave weighted{} out");
  static constexpr field reads = Piece::reads | field::weight;
  static constexpr field wrt = wrt_of<Piece>();
  static constexpr std::string_view name = Piece::name;
  static constexpr auto monitors = monitors_of<Piece>();
  static constexpr bool per_sequence = is_per_sequence<Piece>;
  static constexpr bool stops_gradient = detail::stops_the_gradient<Piece>();
  using gathers = gathers_of<Piece>;
  [[no_unique_address]] Piece piece;

  constexpr explicit weighted(Piece p) : piece(p) {}
  constexpr auto score() const noexcept requires(!std::is_same_v<gathers, no_gather>) { return score_of(piece); }

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Piece>> operator()(const token<V>& t) const noexcept {
    auto result = piece.template operator()<Math, V>(t);
    result.value = result.value * t.weight;
    result.slope = result.slope * t.weight;
    return result;
  }
};

RLCORE_END
