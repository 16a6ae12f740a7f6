// A link that judges averages, on scores that are sums.
#pragma once

#include <string_view>
#include <type_traits>

#include "rlcore/objective/piece/preference/pair.hpp"
#include "rlcore/objective/piece/score/token_count.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// per_token{link}: the link on either score divided by its number of live tokens (at least 1). On sum_of a score it is
/// the link on mean_of that score; it is needed where another link of the same objective wants the sum, e.g.
/// mixed{bradley_terry{}, per_token{ipo_link{}}}, or where the sum is transformed before it is averaged, as TRL does:
/// transformed{forward_kl_reward{}, per_token{ipo_link{}}}.
template <class Link>
struct per_token {
  static_assert(pair_link<Link>, "rlcore: per_token holds a link of pairs; single rows are averaged by mean_of");
  static_assert(std::is_same_v<gathers_of<Link>, no_gather>, "rlcore: this link gathers something else already");
  using gathers = sum_of<token_count>;
  static constexpr field reads = row_fields_of<Link>() | field::gathered;
  static constexpr std::string_view name = Link::name;
  static constexpr auto monitors = monitors_of<Link>();
  [[no_unique_address]] Link link;

  /// The link `l` on averages.
  constexpr explicit per_token(Link l) : link(l) {}

  template <class Math, class V>
  RLCORE_FN pair_term<V, monitor_count<Link>> operator()(const token<V>& chosen,
                                                         const token<V>& rejected) const noexcept {
    const V of_chosen = Math::max(chosen.gathered, V(1)), of_rejected = Math::max(rejected.gathered, V(1));
    token<V> c = chosen, r = rejected;
    c.logp = chosen.logp / of_chosen, r.logp = rejected.logp / of_rejected;
    auto result = link.template operator()<Math, V>(c, r);
    result.slope_chosen = result.slope_chosen / of_chosen;
    result.slope_rejected = result.slope_rejected / of_rejected;
    return result;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
