// Pairwise preference losses (links of pairs): DPO, IPO, hinge, robust, EXO, NCA, SPPO, APO, AOT, DiscoPOP, BCO.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string_view>

#include "rlcore/core/elementary.hpp"
#include "rlcore/core/order.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/preference/link.hpp"
#include "rlcore/objective/piece/score.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// -(1 - smoothing) log sigmoid(z) - smoothing log sigmoid(-z) with z = beta (chosen - rejected) - margin.
/// On log-ratios to the reference it is DPO (Rafailov et al. 2023), with smoothing cDPO; on the scores of a head and
/// beta = 1 it is the Bradley-Terry loss of a reward model; on log-probs CPO, and with a margin SimPO. slope by chosen:
/// beta (sigmoid(z) - (1 - smoothing)).
/// Monitors: share of pairs ranked right, and the rewards beta * score of both sides.
struct bradley_terry {
  static constexpr std::string_view name = "preference";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;
  double smoothing = 0.0, margin = 0.0;

  constexpr void check_settings() const {
    check_setting("bradley_terry", "smoothing", smoothing, setting::below_1);
    check_setting("bradley_terry", "margin", margin, setting::finite);
  }

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V z = V(beta) * (chosen.logp - rejected.logp) - V(margin);
    const term<V> loss = smoothed_logistic<Math>(z, smoothing);
    const V slope = V(beta) * loss.slope;
    return judged_pair<Math>(loss.value, slope, -slope, beta, chosen, rejected);
  }
};

/// (chosen - rejected - 1 / (2 beta))^2 with slope 2 (...) by chosen: IPO (Azar et al. 2024, their tau is beta).
/// On mean_of<log_ratio_to_reference> it is what the authors confirmed and TRL computes; on sum_of it is OpenRLHF's.
/// The two differ by the lengths of the sequences, which is why the gather has to be named.
struct ipo_link {
  static constexpr std::string_view name = "ipo";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V gap = chosen.logp - rejected.logp - V(1 / (2 * beta));
    const V slope = V(2) * gap;
    return judged_pair<Math>(gap * gap, slope, -slope, beta, chosen, rejected);
  }
};

/// Hinge loss max(0, 1 - z), z = beta (chosen - rejected): SLiC (Zhao et al. 2023), RSO (Liu et al. 2024); TRL "hinge".
/// slope by chosen: -beta below the margin, 0 at it and beyond (as PyTorch's relu).
struct hinge_link {
  static constexpr std::string_view name = "hinge";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V z = V(beta) * (chosen.logp - rejected.logp);
    const V value = Math::select(z >= V(1), V(0), V(1) - z);  // written so that NaN gets through
    const V slope = Math::select(z >= V(1), V(0), Math::select(z < V(1), V(-beta), z));
    return judged_pair<Math>(value, slope, -slope, beta, chosen, rejected);
  }
};

/// The probability that a label is flipped: in [0, 1/2), anything else throws std::invalid_argument.
struct flip_probability {
  double value;
  /// Throws std::invalid_argument unless 0 <= p < 1/2.
  constexpr flip_probability(double p) : value(p) {
    if (!(p >= 0 && p < 0.5)) throw std::invalid_argument("rlcore: a flip probability is at least 0 and below 1/2");
  }
};

/// [-(1 - e) log sigmoid(z) + e log sigmoid(-z)] / (1 - 2 e), z = beta (chosen - rejected): robust DPO (Chowdhury et
/// al. 2024; TRL "robust"). Written as softplus(-z) - e z / (1 - 2 e), which does not cancel; unbounded below for e >
/// 0. slope by chosen: -beta (sigmoid(-z) + e / (1 - 2 e)).
struct robust_link {
  static constexpr std::string_view name = "robust";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;
  flip_probability flips = 0.0;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V z = V(beta) * (chosen.logp - rejected.logp);
    const V gain(flips.value / (1 - 2 * flips.value));
    const V value = Math::softplus(-z) - Math::select(gain > V(0), gain * z, V(0));
    const V slope = V(-beta) * (Math::sigmoid(-z) + gain);
    return judged_pair<Math>(value, slope, -slope, beta, chosen, rejected);
  }
};

/// Uncertainty of a label: in (0, 1), anything else throws std::invalid_argument. At 0 no loss exists: the KL to a
/// certain preference is infinite.
struct label_doubt {
  double value;
  /// Throws std::invalid_argument unless 0 < p < 1.
  constexpr label_doubt(double p) : value(p) {
    if (!(p > 0 && p < 1)) throw std::invalid_argument("rlcore: the doubt of exo_pair_link is above 0 and below 1");
  }
};

/// s log(s / (1 - e)) + (1 - s) log((1 - s) / e), s = sigmoid(beta (chosen - rejected)): EXO for pairs (Ji et al. 2024,
/// equation 16; TRL "exo_pair", where e is label_smoothing). slope by chosen: beta s (1 - s) (z + log e - log(1 - e)).
struct exo_pair_link {
  static constexpr std::string_view name = "exo_pair";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;
  label_doubt doubt = 1e-3;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V z = V(beta) * (chosen.logp - rejected.logp);
    const V s = Math::sigmoid(z), other = Math::sigmoid(-z);
    const V log_right(elementary::log1p(-doubt.value)), log_wrong(elementary::log(doubt.value));
    const V value = s * (-Math::softplus(-z) - log_right) + other * (-Math::softplus(z) - log_wrong);
    const V slope = V(beta) * (s * other) * (z + log_wrong - log_right);
    return judged_pair<Math>(value, slope, -slope, beta, chosen, rejected);
  }
};

/// softplus(-c) + softplus(c) / 2 + softplus(r) / 2 with c = beta chosen, r = beta rejected: NCA for two answers (Chen
/// et al. 2024; TRL "nca_pair"). slopes: beta (sigmoid(c) / 2 - sigmoid(-c)), beta sigmoid(r) / 2.
struct nca_pair_link {
  static constexpr std::string_view name = "nca_pair";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V c = V(beta) * chosen.logp, r = V(beta) * rejected.logp;
    const V value = Math::softplus(-c) + V(0.5) * Math::softplus(c) + V(0.5) * Math::softplus(r);
    const V slope_chosen = V(beta) * (V(0.5) * Math::sigmoid(c) - Math::sigmoid(-c));
    const V slope_rejected = V(0.5 * beta) * Math::sigmoid(r);
    return judged_pair<Math>(value, slope_chosen, slope_rejected, beta, chosen, rejected);
  }
};

/// softplus(-c) + softplus(r) with c = beta chosen, r = beta rejected: BCO on pairs, without a reward shift (Jung et
/// al. 2024; TRL "bco_pair"). slopes: -beta sigmoid(-c), beta sigmoid(r).
struct bco_pair_link {
  static constexpr std::string_view name = "bco_pair";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V c = V(beta) * chosen.logp, r = V(beta) * rejected.logp;
    return judged_pair<Math>(Math::softplus(-c) + Math::softplus(r), V(-beta) * Math::sigmoid(-c),
                             V(beta) * Math::sigmoid(r), beta, chosen, rejected);
  }
};

/// (chosen - 1 / (2 beta))^2 + (rejected + 1 / (2 beta))^2: SPPO (Wu et al. 2024, equation 4.7) with probability 1 for
/// the winner and 0 for the loser; beta is 1 / eta of the paper. TRL "sppo_hard". slopes: 2 (...) of either square.
struct sppo_hard_link {
  static constexpr std::string_view name = "sppo_hard";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V aim(1 / (2 * beta));
    const V c = chosen.logp - aim, r = rejected.logp + aim;
    return judged_pair<Math>(c * c + r * r, V(2) * c, V(2) * r, beta, chosen, rejected);
  }
};

/// sigmoid(-beta chosen) + sigmoid(beta rejected): APO-zero (D'Oosterlinck et al. 2024, equation 7; TRL "apo_zero"):
/// the chosen answer up, the rejected one down. slopes: -beta s (1 - s), beta s (1 - s), each s of its own side.
struct apo_zero_link {
  static constexpr std::string_view name = "apo_zero";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V c = V(beta) * chosen.logp, r = V(beta) * rejected.logp;
    const V missed = Math::sigmoid(-c), kept = Math::sigmoid(r);
    return judged_pair<Math>(missed + kept, V(-beta) * (missed * Math::sigmoid(c)),
                             V(beta) * (kept * Math::sigmoid(-r)), beta, chosen, rejected);
  }
};

/// sigmoid(beta chosen) + sigmoid(-beta (chosen - rejected)): APO-down (D'Oosterlinck et al. 2024, equation 8; TRL
/// "apo_down"): both answers down, the rejected one more. slopes with a = beta chosen, z = beta (chosen - rejected):
/// beta (s(a) s(-a) - s(z) s(-z)), beta s(z) s(-z).
struct apo_down_link {
  static constexpr std::string_view name = "apo_down";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V a = V(beta) * chosen.logp, z = V(beta) * (chosen.logp - rejected.logp);
    const V level = Math::sigmoid(a), missed = Math::sigmoid(-z);
    const V apart = V(beta) * (missed * Math::sigmoid(z));
    return judged_pair<Math>(level + missed, V(beta) * (level * Math::sigmoid(-a)) - apart, apart, beta, chosen,
                             rejected);
  }
};

namespace detail {

/// Positions in ascending order of x; equal numbers keep their order, NaN comes last.
inline scratch_vector<std::size_t> ascending(const scratch_vector<double>& x) {
  auto order = counted<std::size_t>(x.size());
  sort_stably(order, [&](std::size_t a, std::size_t b) { return std::isnan(x[b]) ? !std::isnan(x[a]) : x[a] < x[b]; });
  return order;
}

inline void check_pairs(std::size_t rows, std::size_t slopes) {
  if (rows % 2 != 0 || slopes != rows)
    throw std::invalid_argument("rlcore: an optimal-transport link needs rows in pairs and one slope per row");
}

}  // namespace detail

/// The mean over k of the logistic loss (with smoothing) of beta (p_k - q_k): p sorted gaps chosen - rejected of the
/// policy's summed log-probs, q sorted gaps of the reference's (AOT, Melnyk et al. 2024; TRL "aot").
///
/// A link of all rows of a step, pairs are rows 2k and 2k + 1, on sum_of<log_prob>; the reference's sums are gathered
/// besides. slope by chosen of the pair that has rank k: beta (smoothing sigmoid(z) - (1 - smoothing) sigmoid(-z)) /
/// pairs; minus that by rejected. Equal gaps keep the order of their rows, so the result does not depend on a sorting
/// algorithm. Throws std::invalid_argument for an odd number of rows.
struct aot_link {
  using gathers = sum_of<reference_log_prob>;
  static constexpr field reads = field::gathered;
  static constexpr std::string_view name = "aot";
  positive beta = 0.1;
  double smoothing = 0.0;

  constexpr void check_settings() const { check_setting("aot_link", "smoothing", smoothing, setting::below_1); }

  double operator()(std::span<const token<double>> rows, std::span<double> slope) const {
    detail::check_pairs(rows.size(), slope.size());
    const std::size_t pairs = rows.size() / 2;
    scratch_vector<double> policy(pairs), reference(pairs);
    for (std::size_t k = 0; k < pairs; ++k) {
      policy[k] = rows[2 * k].logp - rows[2 * k + 1].logp;
      reference[k] = rows[2 * k].gathered - rows[2 * k + 1].gathered;
    }
    const auto of_policy = detail::ascending(policy), of_reference = detail::ascending(reference);
    double total = 0;
    for (std::size_t rank = 0; rank < pairs; ++rank) {
      const std::size_t k = of_policy[rank];
      const auto loss = smoothed_logistic<exact_math>(beta * (policy[k] - reference[of_reference[rank]]), smoothing);
      total += loss.value / static_cast<double>(pairs);
      slope[2 * k] = beta * loss.slope / static_cast<double>(pairs);
      slope[2 * k + 1] = -slope[2 * k];
    }
    return total;
  }
};

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
