// KTO without a reference point.
#pragma once

#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/preference/kto_link.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// sigmoid(-beta u) for a desirable row (field::target 1), sigmoid(beta u) for an undesirable one (0): APO-zero
/// (D'Oosterlinck et al. 2024) on single rows; TRL's KTO "apo_zero_unpaired". It is kto_link with the baseline 0.
struct apo_zero_unpaired_link {
  static constexpr field reads = kto_link::reads;
  static constexpr std::string_view name = "apo_zero_unpaired";
  static constexpr auto monitors = kto_link::monitors;
  positive beta = 0.1;
  double desirable_weight = 1.0, undesirable_weight = 1.0;

  constexpr void check_settings() const {
    check_setting("apo_zero_unpaired_link", "desirable_weight", desirable_weight, setting::coefficient);
    check_setting("apo_zero_unpaired_link", "undesirable_weight", undesirable_weight, setting::coefficient);
  }

  template <class Math, class V>
  RLCORE_FN term<V, 3> operator()(const token<V>& row) const noexcept {
    return kto_link{.kl = kto_baseline(0),
                    .beta = beta,
                    .desirable_weight = desirable_weight,
                    .undesirable_weight = undesirable_weight}
        .template operator()<Math, V>(row);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
