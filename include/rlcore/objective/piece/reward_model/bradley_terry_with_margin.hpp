// A reward model whose pairs say how much better the chosen answer is.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/preference/pair.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// -log sigmoid(chosen - rejected - margin) with the margin in field::target of the chosen row (Llama 2, Touvron et al.
/// 2023; TRL's and OpenRLHF's margin). slope by chosen: -sigmoid(-(chosen - rejected - margin)). With the same margin
/// for all pairs, bradley_terry{.beta = 1, .margin = ...}; without one, bradley_terry{.beta = 1}.
struct bradley_terry_with_margin {
  static constexpr field reads = field::target;
  static constexpr std::string_view name = "preference_with_margin";
  static constexpr auto monitors = pair_monitors;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V z = chosen.logp - rejected.logp - chosen.target;
    const V slope = -Math::sigmoid(-z);
    return judged_pair<Math>(Math::softplus(-z), slope, -slope, 1.0, chosen, rejected);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
