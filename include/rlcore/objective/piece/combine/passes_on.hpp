// What a combination takes over from the piece it holds.
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/score/gather.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Whether P's slope deliberately is not the derivative of its value: some factor of it is held constant.
template <class P>
constexpr bool stops_gradient_of() noexcept {
  if constexpr (requires { P::stops_gradient; })
    return P::stops_gradient;
  else
    return false;
}

/// What P reads, by itself or through what it gathers.
template <class P>
constexpr field reads_in_all() noexcept {
  if constexpr (std::is_same_v<gathers_of<P>, no_gather>)
    return P::reads;
  else
    return P::reads | gathers_of<P>::score::reads;
}

/// Whether P looks at probabilities and not only at their ratio (DPPO): then logp and old_logp cannot be shown shifted.
template <class P>
constexpr bool reads_probabilities_of() noexcept {
  if constexpr (requires { P::reads_probabilities; })
    return P::reads_probabilities;
  else
    return false;
}

/// Base of combinations of one piece; they overwrite what they change, usually `reads`.
template <class Piece>
struct passes_on {
  static_assert(!composite_piece<Piece>,
                "rlcore: this combination holds one piece; put it around each piece of the sum, not around the sum");
  static constexpr field reads = Piece::reads;
  static constexpr field wrt = wrt_of<Piece>();
  static constexpr std::string_view name = Piece::name;
  static constexpr auto monitors = monitors_of<Piece>();
  static constexpr bool per_sequence = is_per_sequence<Piece>;
  static constexpr field row_fields = per_row_fields_of<Piece>();
  static constexpr bool reads_probabilities = reads_probabilities_of<Piece>();
  static constexpr bool stops_gradient = stops_gradient_of<Piece>();
  static constexpr bool zero_mean_gradient = requires { requires Piece::zero_mean_gradient; };
  using gathers = gathers_of<Piece>;
  [[no_unique_address]] Piece piece{};

  constexpr passes_on() = default;
  /// Around the piece `p`.
  constexpr explicit passes_on(Piece p) : piece(std::move(p)) {}
  constexpr auto score() const noexcept requires requires(const Piece& p) { p.score(); }
  { return piece.score(); }
};

RLCORE_ALGORITHM_END
RLCORE_END
