// Pairs that count according to how likely the current policy is to write them.
#pragma once

#include <string_view>
#include <type_traits>

#include "rlcore/objective/piece/preference/pair.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// weighted_pair{link}: value and slopes times field::weight of both rows (one value per row, constant). With the
/// weights of wpo_weights it is WPO (Zhou et al. 2024; TRL use_weighting). Monitors are not weighted.
template <class Link>
struct weighted_pair {
  static_assert(pair_link<Link>,
                "rlcore: weighted_pair holds a link of pairs; a link of single rows is weighted by "
                "weighted{link}");
  using gathers = gathers_of<Link>;
  static constexpr field reads = row_fields_of<Link>() | field::weight;
  static constexpr std::string_view name = Link::name;
  static constexpr auto monitors = monitors_of<Link>();
  [[no_unique_address]] Link link;

  /// The link `l` times the weights of both rows.
  constexpr explicit weighted_pair(Link l) : link(l) {}

  constexpr auto score() const noexcept requires(!std::is_same_v<gathers, no_gather>) { return score_of(link); }

  template <class Math, class V>
  RLCORE_FN pair_term<V, monitor_count<Link>> operator()(const token<V>& chosen,
                                                         const token<V>& rejected) const noexcept {
    auto result = link.template operator()<Math, V>(chosen, rejected);
    const V w = chosen.weight * rejected.weight;
    result.value = result.value * w;
    result.slope_chosen = result.slope_chosen * w;
    result.slope_rejected = result.slope_rejected * w;
    return result;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
