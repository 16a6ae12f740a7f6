// One more monitor for a piece.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "rlcore/objective/piece/combine/passes_on.hpp"
#include "rlcore/objective/piece/combine/scaled.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/measure.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// also_measures{piece, measure}: value, slope and monitors of the piece, and the measure as its last monitor. The loop
/// that computes the loss sums it, so a number that is only logged costs no pass of its own. Of monitors with one name
/// the last is meant.
template <class Piece, token_measure Measure>
struct also_measures : passes_on<Piece> {
  static constexpr field reads = Piece::reads | Measure::reads;
  static constexpr auto monitors = [] {
    constexpr auto own = monitors_of<Piece>();
    std::array<std::string_view, own.size() + 1> all{};
    for (std::size_t i = 0; i < own.size(); ++i) all[i] = own[i];
    all[own.size()] = Measure::name;
    return all;
  }();
  [[no_unique_address]] Measure measure;

  /// The piece `p` with the measure `m`.
  constexpr also_measures(Piece p, Measure m) : passes_on<Piece>(std::move(p)), measure(m) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitors.size()> operator()(const token<V>& t) const noexcept {
    const auto own = this->piece.template operator()<Math, V>(t);
    term<V, monitors.size()> result{own.value, own.slope, {}};
    if constexpr (monitors.size() > 1)
      for (std::size_t i = 0; i + 1 < monitors.size(); ++i) result.monitor[i] = own.monitor[i];
    result.monitor[monitors.size() - 1] = measure.template operator()<Math, V>(t);
    return result;
  }
};

/// The objective with `measure` at its first piece.
template <class Objective, token_measure Measure>
constexpr auto measure_at_first(const Objective& objective, Measure measure) {
  return also_measures<Objective, Measure>{objective, measure};
}
/// As above, at the first piece of what is scaled.
template <class Node, token_measure Measure>
constexpr auto measure_at_first(const scaled<Node>& of, Measure measure) {
  return scaled{of.scale, measure_at_first(of.node, measure)};
}
/// As above, at the first piece of the first node.
template <class Only, token_measure Measure>
constexpr auto measure_at_first(const sum<Only>& of, Measure measure) {
  return sum{measure_at_first(of.first, measure)};
}
/// As above, at the first piece of the first node.
template <class First, class Second, class... Rest, token_measure Measure>
constexpr auto measure_at_first(const sum<First, Second, Rest...>& of, Measure measure) {
  return sum{measure_at_first(of.first, measure), of.rest};
}

RLCORE_ALGORITHM_END
RLCORE_END
