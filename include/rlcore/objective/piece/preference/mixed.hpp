// Several losses on the same pairs.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rlcore/objective/piece/combine/scaled.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/preference/pair.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// mixed{scaled{0.8, bradley_terry{}}, bco_pair_link{}}: the weighted sum of links that judge the same scores (MPO,
/// Wang et al. 2024; TRL's list of loss types with loss_weights, whose default weights are 1). Monitors: those of the
/// first link, then every link's own value under its name, not multiplied. Links on other gathers, and losses on
/// tokens, are further calls of evaluate with token_gradients::add.
template <class... Nodes>
struct mixed {
  static constexpr std::size_t links = piece_count<sum<Nodes...>>;
  template <std::size_t Index>
  using link = piece_type<Index, sum<Nodes...>>;

  static constexpr bool all_pairs = []<std::size_t... Index>(std::index_sequence<Index...>) {
    return (pair_link<link<Index>> && ...);
  }
  (std::make_index_sequence<links>{});
  static_assert(all_pairs, "rlcore: mixed holds links of pairs, each bare or as scaled{weight, link}");

  /// The type whose members say which gather the links share; declared only.
  template <std::size_t... Index>
  static auto gather_all(std::index_sequence<Index...>) -> detail::shared_gather<link<Index>...>;
  using shared = decltype(gather_all(std::make_index_sequence<links>{}));
  static_assert(shared::agree,
                "rlcore: two links of this mixture gather different things over a row; evaluate them by "
                "two calls, the second with token_gradients::add");
  using gathers = typename shared::type;

  static constexpr field reads = []<std::size_t... Index>(std::index_sequence<Index...>) {
    return (field::none | ... | row_fields_of<link<Index>>());
  }
  (std::make_index_sequence<links>{});
  static constexpr std::string_view name = "mixed";

  static constexpr std::size_t of_first = monitor_count<link<0>>;
  static constexpr auto monitors = []<std::size_t... Index>(std::index_sequence<Index...>) {
    std::array<std::string_view, of_first + links> names{};
    for (std::size_t m = 0; m < of_first; ++m) names[m] = monitors_of<link<0>>()[m];
    ((names[of_first + Index] = link<Index>::name), ...);
    return names;
  }
  (std::make_index_sequence<links>{});

  [[no_unique_address]] sum<Nodes...> nodes;

  /// The links, each bare or as scaled{weight, link}.
  constexpr explicit mixed(Nodes... n) : nodes(n...) {}

  template <std::size_t Index = 0>
  constexpr auto score() const noexcept requires(!std::is_same_v<gathers, no_gather>) {
    if constexpr (std::is_same_v<gathers_of<link<Index>>, no_gather>)
      return score<Index + 1>();
    else
      return score_of(piece_at<Index>(nodes));
  }

  template <class Math, class V>
  RLCORE_FN pair_term<V, of_first + links> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    pair_term<V, of_first + links> total{};
    add<0, Math>(chosen, rejected, total);
    return total;
  }

 private:
  template <std::size_t Index, class Math, class V>
  RLCORE_FN void add(const token<V>& chosen, const token<V>& rejected,
                     pair_term<V, of_first + links>& total) const noexcept {
    const auto one = piece_at<Index>(nodes).template operator()<Math, V>(chosen, rejected);
    const V weight(coefficient_at<Index>(nodes));
    if constexpr (Index == 0)
      for (std::size_t m = 0; m < of_first; ++m) total.monitor[m] = one.monitor[m];
    total.monitor[of_first + Index] = one.value;
    total.value = total.value + weight * one.value;
    total.slope_chosen = total.slope_chosen + weight * one.slope_chosen;
    total.slope_rejected = total.slope_rejected + weight * one.slope_rejected;
    if constexpr (Index + 1 < links) add<Index + 1, Math>(chosen, rejected, total);
  }
};

template <class... Nodes>
mixed(Nodes...) -> mixed<Nodes...>;

RLCORE_ALGORITHM_END
RLCORE_END
