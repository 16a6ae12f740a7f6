// Sums of pieces, and pieces that take their value, slope or monitors from others.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/score.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// scaled{c, piece}: enters the loss c times; the report shows the piece's own value, not multiplied.
template <class Node>
struct scaled {
  static constexpr std::size_t pieces = piece_count<Node>;
  double scale;
  [[no_unique_address]] Node node;

  constexpr void check_settings() const { check_setting("scaled", "scale", scale, setting::finite); }

  /// `scale_` times `node_`, a piece, a sum or a link.
  constexpr scaled(double scale_, Node node_) : scale(scale_), node(node_) {}

  template <std::size_t Index>
  RLCORE_FN constexpr const auto& piece() const noexcept {
    return piece_at<Index>(node);
  }
  template <std::size_t Index>
  RLCORE_FN constexpr double coefficient() const noexcept {
    return scale * coefficient_at<Index>(node);
  }
};

/// Whether P's slope deliberately is not the derivative of its value: some factor of it is held constant.
template <class P>
constexpr bool stops_gradient_of() noexcept {
  if constexpr (requires { P::stops_gradient; })
    return P::stops_gradient;
  else
    return false;
}

/// The fields that P reads, by itself or through its gather.
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

/// Base of combinations of one piece; they override the members they change, usually `reads`.
template <class Piece>
struct forwarding_piece {
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

  constexpr forwarding_piece() = default;
  /// Around the piece `p`.
  constexpr explicit forwarding_piece(Piece p) : piece(std::move(p)) {}
  constexpr auto score() const noexcept
    requires requires(const Piece& p) { p.score(); }
  {
    return piece.score();
  }
};

/// weighted{piece}: value and slope times field::weight, after the piece's own clipping (verl's order). Monitors are
/// not weighted. A piece that has a ratio to the rollout policy, or a weight inside, is corrected already.
///
/// A piece of one term per sequence is to be weighted per sequence: the same number at each token of a row, as the
/// levels of a rollout correction other than `token` give. Else its slope is not that of its value.
template <class Piece>
struct weighted : forwarding_piece<Piece> {
  static_assert(
      !contains(reads_in_all<Piece>(), field::rollout_logp),
      "rlcore: this piece has a ratio to rollout_logp, so a weight would correct twice; use the piece without "
      "weighted{}, or a ratio to old_logp with it");
  static_assert(!contains(reads_in_all<Piece>(), field::weight),
                "rlcore: this piece applies field::weight itself; leave weighted{} out");
  static constexpr field reads = Piece::reads | field::weight;

  /// The piece `p` times field::weight.
  constexpr explicit weighted(Piece p) : forwarding_piece<Piece>(p) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Piece>> operator()(const token<V>& t) const noexcept {
    auto result = this->piece.template operator()<Math, V>(t);
    result.value = result.value * t.weight;
    result.slope = result.slope * t.weight;
    return result;
  }
};

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

/// when{present, piece}: a term of a sum that a run-time setting switches on, e.g. when{use_kl, scaled{0.001, k3{}}}.
/// with_present() leaves absent terms out of the loop; evaluate() alone gives them the coefficient 0.
template <class Node>
struct when {
  static constexpr std::size_t pieces = piece_count<Node>;
  bool present;
  [[no_unique_address]] Node node;

  /// `node_` if `present_`.
  constexpr when(bool present_, Node node_) : present(present_), node(node_) {}

  template <std::size_t Index>
  RLCORE_FN constexpr const auto& piece() const noexcept {
    return piece_at<Index>(node);
  }
  template <std::size_t Index>
  RLCORE_FN constexpr double coefficient() const noexcept {
    return present ? coefficient_at<Index>(node) : 0.0;
  }
};

namespace detail {
template <class Objective>
inline constexpr bool is_when = false;
template <class Node>
inline constexpr bool is_when<when<Node>> = true;
template <class Objective>
inline constexpr bool has_when = false;
template <class... Nodes>
inline constexpr bool has_when<sum<Nodes...>> = (is_when<Nodes> || ...);

/// f(sum of `taken` and of the nodes of `left` that are present).
template <class F, class First, class... Rest, class... Taken>
constexpr auto take_present(const F& f, const sum<First, Rest...>& left, const Taken&... taken) {
  const auto further = [&](const auto&... more) {
    if constexpr (sizeof...(Rest) == 0)
      return f(sum{taken..., more...});
    else
      return take_present(f, left.rest, taken..., more...);
  };
  if constexpr (!is_when<First>)
    return further(left.first);
  else
    return left.first.present ? further(left.first.node) : further();
}
}  // namespace detail

/// f(objective) without the terms of its sum that are absent: f is called for one of the 2^n compositions and returns
/// the same type for each. The first term is no when{}.
template <class Objective, class F>
constexpr auto with_present(const Objective& objective, const F& f) {
  if constexpr (detail::has_when<Objective>)
    return detail::take_present(f, objective);
  else
    return f(objective);
}

/// straight_through{a, b}: reports a, descends b. straight_through{clamped_k3{}, k2{}} is verl's "k3+"; see
/// with_kl_gradient. If both gather something over the row, it must be the same.
template <class Value, class Slope>
struct straight_through {
  static_assert(wrt_of<Value>() == wrt_of<Slope>(), "rlcore: both pieces must have their slope by the same field");
  static constexpr bool value_gathers = !std::is_same_v<gathers_of<Value>, no_gather>;
  static constexpr bool slope_gathers = !std::is_same_v<gathers_of<Slope>, no_gather>;
  static_assert(
      !value_gathers || !slope_gathers || std::is_same_v<gathers_of<Value>, gathers_of<Slope>>,
      "rlcore: the two pieces of straight_through gather different things, but a row has one field::gathered");
  using gathers = std::conditional_t<value_gathers, gathers_of<Value>, gathers_of<Slope>>;
  static constexpr field reads = Value::reads | Slope::reads;
  static constexpr field wrt = wrt_of<Value>();
  static constexpr std::string_view name = Value::name;
  static constexpr auto monitors = monitors_of<Value>();
  static constexpr bool stops_gradient = true;
  static constexpr bool per_sequence = is_per_sequence<Value>;
  static constexpr field row_fields = per_row_fields_of<Value>() | per_row_fields_of<Slope>();
  static constexpr bool reads_probabilities = reads_probabilities_of<Value>() || reads_probabilities_of<Slope>();
  static constexpr bool zero_mean_gradient = requires { requires Slope::zero_mean_gradient; };
  [[no_unique_address]] Value value;
  [[no_unique_address]] Slope slope;

  /// The value of `v` with the slope of `s`.
  constexpr straight_through(Value v, Slope s) : value(v), slope(s) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Value>> operator()(const token<V>& t) const noexcept {
    auto result = value.template operator()<Math, V>(t);
    result.slope = slope.template operator()<Math, V>(t).slope;
    return result;
  }
};

/// also_measures{piece, measure}: value, slope and monitors of the piece, and the measure as its last monitor. The loss
/// loop sums it, so a number that is only logged costs no extra pass. If monitors share a name, the last one counts.
template <class Piece, token_measure Measure>
struct also_measures : forwarding_piece<Piece> {
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
  constexpr also_measures(Piece p, Measure m) : forwarding_piece<Piece>(std::move(p)), measure(m) {}

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
/// As above, at the first piece of the scaled node.
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
