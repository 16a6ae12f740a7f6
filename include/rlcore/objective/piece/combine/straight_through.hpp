// The value of one piece with the slope of another.
#pragma once

#include <string_view>
#include <type_traits>

#include "rlcore/objective/piece/combine/passes_on.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
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

RLCORE_ALGORITHM_END
RLCORE_END
