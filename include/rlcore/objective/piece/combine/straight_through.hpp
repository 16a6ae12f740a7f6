// The value of one piece with the slope of another.
#pragma once

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN

/// straight_through{a, b}: reports a, descends b. straight_through{clamped_k3{}, k2{}} is verl's "k3+".
template <class Value, class Slope>
struct straight_through {
  static_assert(wrt_of<Value>() == wrt_of<Slope>(), "rlcore: both pieces must have their slope by the same field");
  static constexpr field reads = Value::reads | Slope::reads;
  static constexpr field wrt = wrt_of<Value>();
  static constexpr std::string_view name = Value::name;
  static constexpr auto monitors = monitors_of<Value>();
  static constexpr bool stops_gradient = true;
  [[no_unique_address]] Value value;
  [[no_unique_address]] Slope slope;

  constexpr straight_through(Value v, Slope s) : value(v), slope(s) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Value>> operator()(const token<V>& t) const noexcept {
    auto result = value.template operator()<Math, V>(t);
    result.slope = slope.template operator()<Math, V>(t).slope;
    return result;
  }
};

RLCORE_END
