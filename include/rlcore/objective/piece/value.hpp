// Critic (value function) losses: squared, clipped, Huber.
#pragma once

#include <array>
#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// (v - R)^2 / 2, with R in field::target. slope by field::value: v - R. OpenRLHF's value loss without clip range.
struct squared_value {
  static constexpr field reads = field::value | field::target;
  static constexpr field wrt = field::value;
  static constexpr std::string_view name = "value";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V error = t.value - t.target;
    return {0.5f * (error * error), error};
  }
};

/// max((v - R)^2, (c - R)^2) / 2 with c = clamp(v, old - range, old + range): the value may leave the neighbourhood of
/// the old one only if that does not make the loss look smaller (Schulman et al. 2017, OpenAI's implementation). The
/// default is verl's and OpenRLHF's; TRL has 0.2.
///
/// slope by field::value: v - R where c = v or where the first square is the larger, 0 where the second is; where both
/// are equal though c != v, half of it, as autograd divides a maximum of equals. The range is a closed interval: at a
/// bound older versions of PyTorch pass all of v - R, 2.15 1/2 of it (clamp by numbers) or 3/4 (by tensors). Monitor:
/// the share of tokens held by the clip.
struct clipped_value {
  static constexpr field reads = field::value | field::old_value | field::target;
  static constexpr field wrt = field::value;
  static constexpr std::string_view name = "value";
  static constexpr std::array<std::string_view, 1> monitors{"clipfrac"};
  double range = 0.5;

  constexpr void check_settings() const { check_setting("clipped_value", "range", range, setting::width); }

  template <class Math, class V>
  RLCORE_FN flagged_term<V> operator()(const token<V>& t) const noexcept {
    const V moved = t.value - t.old_value, free = t.value - t.target;
    const auto inside = Math::all(moved >= V(-range), moved <= V(range));
    const V clamped = Math::clamp(moved, V(-range), V(range)) + t.old_value;
    const V held = Math::select(inside, free, clamped - t.target);
    const V a = free * free, b = held * held;
    const auto holds = b > a;
    const V tie = 0.5f * free + (held - held);  // NaN if old_value is
    const V outside = Math::select(holds, V(0), Math::select(a > b, free, tie));
    return {0.5f * Math::select(a >= b, a, b), Math::select(inside, free, outside), {Math::select(holds, V(1), V(0))}};
  }
};

/// e^2 / 2 for |e| <= delta, else delta (|e| - delta / 2), with e = v - R (Huber 1964). slope by field::value:
/// clamp(e, -delta, delta). None of the systems has it for the critic.
struct huber_value {
  static constexpr field reads = field::value | field::target;
  static constexpr field wrt = field::value;
  static constexpr std::string_view name = "value";
  double delta = 1.0;

  constexpr void check_settings() const { check_setting("huber_value", "delta", delta, setting::positive); }

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V error = t.value - t.target;
    const V slope = Math::clamp(error, V(-delta), V(delta));
    return {slope * (error - 0.5f * slope), slope};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
