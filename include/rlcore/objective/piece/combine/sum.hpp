// Objectives are sums of pieces.
#pragma once

#include <cstddef>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// sum{a, b, ...}: the loss is the sum of the pieces' losses, each reported on its own. Sums of sums are flattened.
template <class... Nodes>
struct sum;

template <class First>
struct sum<First> {
  static constexpr std::size_t pieces = piece_count<First>;
  [[no_unique_address]] First first;

  /// The sum of one node.
  constexpr explicit sum(First f) : first(f) {}

  template <std::size_t Index>
  RLCORE_FN constexpr const auto& piece() const noexcept {
    return piece_at<Index>(first);
  }
  template <std::size_t Index>
  RLCORE_FN constexpr double coefficient() const noexcept {
    return coefficient_at<Index>(first);
  }
};

template <class First, class... Rest>
struct sum<First, Rest...> {
  static constexpr std::size_t pieces = piece_count<First> + sum<Rest...>::pieces;
  [[no_unique_address]] First first;
  [[no_unique_address]] sum<Rest...> rest;

  /// The sum of the nodes in their order, which is that of the report.
  constexpr explicit sum(First f, Rest... r) : first(f), rest(r...) {}

  template <std::size_t Index>
  RLCORE_FN constexpr const auto& piece() const noexcept {
    if constexpr (Index < piece_count<First>)
      return piece_at<Index>(first);
    else
      return rest.template piece<Index - piece_count<First>>();
  }
  template <std::size_t Index>
  RLCORE_FN constexpr double coefficient() const noexcept {
    if constexpr (Index < piece_count<First>)
      return coefficient_at<Index>(first);
    else
      return rest.template coefficient<Index - piece_count<First>>();
  }
};

template <class... Nodes>
sum(Nodes...) -> sum<Nodes...>;

RLCORE_ALGORITHM_END
RLCORE_END
