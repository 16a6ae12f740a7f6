// Judgements of steps by a head with one output.
#pragma once

#include <array>
#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// softplus(v) - y v = -y log sigmoid(v) - (1 - y) log sigmoid(-v): field::value is the head's output at the step,
/// field::target the label, hard or soft, in [0, 1]. slope by value: sigmoid(v) - y. Monitor: whether both are on the
/// same side of 1/2.
struct step_binary_cross_entropy {
  static constexpr field reads = field::value | field::target;
  static constexpr field wrt = field::value;
  static constexpr std::string_view name = "process_reward";
  static constexpr std::array<std::string_view, 1> monitors{"accuracy"};

  template <class Math, class V>
  RLCORE_FN flagged_term<V> operator()(const token<V>& t) const noexcept {
    const V said = Math::select(t.value > V(0), V(1), V(0)), meant = Math::select(t.target > V(0.5f), V(1), V(0));
    return {Math::softplus(t.value) - t.target * t.value,
            Math::sigmoid(t.value) - t.target,
            {Math::select(said == meant, V(1), V(0))}};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
