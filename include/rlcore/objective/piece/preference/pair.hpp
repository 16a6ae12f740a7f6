// What all links of pairs share: the logistic loss of a difference, their diagnostics, and what they read.
#pragma once

#include <array>
#include <string_view>
#include <type_traits>

#include "rlcore/objective/piece/preference/link.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// The diagnostics of every pair link: share of pairs ranked right, and the implicit rewards beta * score of both
/// sides.
inline constexpr std::array<std::string_view, 3> pair_monitors{"accuracy", "reward_chosen", "reward_rejected"};

/// The per-row fields that a link reads besides the scores.
template <class Link>
constexpr field row_fields_of() noexcept {
  if constexpr (requires { Link::reads; })
    return Link::reads;
  else
    return field::none;
}

namespace detail {

/// What several links of one objective gather besides the score; `agree` is false if there are two such things.
template <class... Links>
struct shared_gather {
  using type = no_gather;
  static constexpr bool agree = true;
};
template <class First, class... Rest>
struct shared_gather<First, Rest...> {
  using of_first = gathers_of<First>;
  using of_rest = typename shared_gather<Rest...>::type;
  static constexpr bool none = std::is_same_v<of_first, no_gather>;
  using type = std::conditional_t<none, of_rest, of_first>;
  static constexpr bool agree = shared_gather<Rest...>::agree &&
                                (none || std::is_same_v<of_rest, no_gather> || std::is_same_v<of_first, of_rest>);
};

}  // namespace detail

/// -(1 - smoothing) log sigmoid(z) - smoothing log sigmoid(-z), and its slope by z. A share of 0 is not evaluated, so
/// that 0 * infinity cannot arise; the slope is made of the smaller side, so that a confident pair keeps its digits.
template <class Math, class V>
RLCORE_FN term<V> smoothed_logistic(const V& z, double smoothing) noexcept {
  const V flipped = Math::select(V(smoothing) > V(0), V(smoothing) * Math::softplus(z), V(0));
  return {V(1 - smoothing) * Math::softplus(-z) + flipped,
          V(smoothing) * Math::sigmoid(z) - V(1 - smoothing) * Math::sigmoid(-z)};
}

/// A pair's value and slopes with the diagnostics of `pair_monitors`.
template <class Math, class V>
RLCORE_FN pair_term<V, 3> judged_pair(const V& value, const V& slope_chosen, const V& slope_rejected, double beta,
                                      const token<V>& chosen, const token<V>& rejected) noexcept {
  return {value,
          slope_chosen,
          slope_rejected,
          {Math::select(chosen.logp > rejected.logp, V(1), V(0)), V(beta) * chosen.logp, V(beta) * rejected.logp}};
}

RLCORE_ALGORITHM_END
RLCORE_END
