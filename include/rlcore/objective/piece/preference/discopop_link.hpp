// A loss that a language model found: logistic and exponential, blended by the log-ratio.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/preference/pair.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// (1 - m) softplus(-z) + m e^-z with m = sigmoid(z / temperature), z = beta (chosen - rejected): DiscoPOP (Lu et al.
/// 2024, log-ratio modulated loss; TRL "discopop"). m e^-z is taken as one exponential, so far on the left it is 0 and
/// not 0 * infinity. slope by chosen:
/// beta [-(1 - m) sigmoid(-z) - m e^-z + (1 - m) (m e^-z - m softplus(-z)) / temperature].
struct discopop_link {
  static constexpr std::string_view name = "discopop";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1, temperature = 0.05;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V z = V(beta) * (chosen.logp - rejected.logp);
    const V y = z / V(temperature);
    const V m = Math::sigmoid(y), rest = Math::sigmoid(-y);
    const V exponential = Math::exp(-z - Math::softplus(-y)), logistic = Math::softplus(-z);
    const V blend = rest * (exponential - m * logistic) / V(temperature);
    const V slope = V(beta) * (blend - rest * Math::sigmoid(-z) - exponential);
    return judged_pair<Math>(rest * logistic + exponential, slope, -slope, beta, chosen, rejected);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
