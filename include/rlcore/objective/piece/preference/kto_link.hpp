// Preferences without pairs, valued as people value gains and losses.
#pragma once

#include <array>
#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/preference/kto_baseline.hpp"
#include "rlcore/objective/piece/preference/label_sign.hpp"
#include "rlcore/objective/piece/preference/link.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// weight sigmoid(-z), z = s beta (u - kl), s = 1 for a desirable row (field::target 1) and -1 for an undesirable one
/// (0): KTO (Ethayarajh et al. 2024; TRL "kto"). A link of single rows for sum_of<log_ratio_to_reference>. The weights
/// of the two classes are to balance them: desirable_weight * desirable rows over undesirable_weight * undesirable rows
/// between 1 and 4/3. slope: -weight s beta sigmoid(z) sigmoid(-z).
/// Monitors, means over all rows: share of desirable rows, beta u of the desirable ones, beta u of the others.
struct kto_link {
  static constexpr field reads = field::logp | field::target;
  static constexpr std::string_view name = "kto";
  static constexpr std::array<std::string_view, 3> monitors{"desirable", "reward_desirable", "reward_undesirable"};
  kto_baseline kl;
  positive beta = 0.1;
  double desirable_weight = 1.0, undesirable_weight = 1.0;

  constexpr void check_settings() const {
    check_setting("kto_link", "desirable_weight", desirable_weight, setting::coefficient);
    check_setting("kto_link", "undesirable_weight", undesirable_weight, setting::coefficient);
  }

  template <class Math, class V>
  RLCORE_FN term<V, 3> operator()(const token<V>& row) const noexcept {
    const V sign = label_sign<Math>(row.target);
    const V weight = Math::select(sign > V(0), V(desirable_weight), V(undesirable_weight));
    const V z = sign * (V(beta) * (row.logp - V(kl.value())));
    const V missed = Math::sigmoid(-z), desirable = Math::select(sign > V(0), V(1), V(0));
    const V reward = V(beta) * row.logp;
    return {weight * missed,
            V(-beta) * sign * (weight * missed * Math::sigmoid(z)),
            {desirable, desirable * reward, (V(1) - desirable) * reward}};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
