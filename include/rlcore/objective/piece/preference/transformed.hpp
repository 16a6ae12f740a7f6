// A pair link on rewards that are not linear in the log-ratio.
#pragma once

#include <string_view>
#include <type_traits>

#include "rlcore/objective/piece/preference/implicit_reward.hpp"
#include "rlcore/objective/piece/preference/pair.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// transformed{reward, link}: the link on reward(chosen), reward(rejected), slopes by the chain rule. With the rewards
/// of implicit_reward.hpp it is f-DPO (Wang et al. 2024; TRL f_divergence_type). It transforms whatever link it holds.
/// TRL's function leaves nca_pair, bco_pair, sppo_hard, aot and apo_* untransformed and its newer trainers refuse them;
/// here that is written by not wrapping them. Monitors are of the transformed rewards. What was gathered is
/// transformed: the mean log-ratio with mean_of. To transform the sum and then average it, as TRL does, hold
/// per_token{link}.
template <class Reward, class Link>
struct transformed {
  static_assert(pair_link<Link>,
                "rlcore: transformed holds a reward and a link of pairs, e.g. "
                "transformed{forward_kl_reward{}, bradley_terry{}}");
  using gathers = gathers_of<Link>;
  static constexpr field reads = row_fields_of<Link>();
  static constexpr std::string_view name = Link::name;
  static constexpr auto monitors = monitors_of<Link>();
  [[no_unique_address]] Reward reward;
  [[no_unique_address]] Link link;

  /// The link `l` on what `r` makes of either score.
  constexpr transformed(Reward r, Link l) : reward(r), link(l) {}

  constexpr auto score() const noexcept requires(!std::is_same_v<gathers, no_gather>) { return score_of(link); }

  template <class Math, class V>
  RLCORE_FN pair_term<V, monitor_count<Link>> operator()(const token<V>& chosen,
                                                         const token<V>& rejected) const noexcept {
    const term<V> up = reward.template operator()<Math, V>(chosen.logp);
    const term<V> down = reward.template operator()<Math, V>(rejected.logp);
    token<V> c = chosen, r = rejected;
    c.logp = up.value, r.logp = down.value;
    auto result = link.template operator()<Math, V>(c, r);
    result.slope_chosen = result.slope_chosen * up.slope;
    result.slope_rejected = result.slope_rejected * down.slope;
    return result;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
