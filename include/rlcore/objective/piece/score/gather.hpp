// How the tokens of a row become one number.
#pragma once

#include <type_traits>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// The sum of Score's value over the live tokens of a row.
template <class Score>
struct sum_of {
  using score = Score;
  static constexpr bool averages = false;
};

/// The same divided by the number of live tokens.
template <class Score>
struct mean_of {
  using score = Score;
  static constexpr bool averages = true;
};

/// For pieces that gather nothing.
struct no_gather {};

namespace detail {
template <class P>
struct gather_of {
  using type = no_gather;
};
template <class P>
requires requires { typename P::gathers; }
struct gather_of<P> {
  using type = typename P::gathers;
};
}  // namespace detail

/// What piece P wants gathered over each row before its tokens are shown to it: its member type `gathers`, e.g.
/// mean_of<log_ratio_to_old>, or no_gather. A piece that wants something reads it as field::gathered.
template <class P>
using gathers_of = typename detail::gather_of<P>::type;

/// The score that P gathers, with P's settings: its member function `score()`, or a default one of the type.
template <class P>
constexpr auto score_of(const P& piece) noexcept {
  if constexpr (requires { piece.score(); })
    return piece.score();
  else
    return typename gathers_of<P>::score{};
}

RLCORE_ALGORITHM_END
RLCORE_END
