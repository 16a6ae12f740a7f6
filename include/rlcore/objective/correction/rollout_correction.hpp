// Rollout correction: weights and gates, the presets of verl, and a truncation for an effective sample size.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/correction/gate.hpp"
#include "rlcore/objective/loop/live_rows.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// The policy at the start of the step: token_batch::old_logp. Three policies are involved (decoupled mode).
struct proximal_policy {
  static constexpr field train = field::old_logp;
};
/// The policy as it is now: token_batch::logp. No proximal policy (bypass mode).
struct current_policy {
  static constexpr field train = field::logp;
};

/// Weights of a policy over the rollout policy, and the gates that must all keep a token for it to be trained on. Made
/// by decoupled() or bypass(), applied by correct().
template <class Train, class Weight, class... Gates>
struct rollout_correction {
  using train_policy = Train;
  Weight weight;
  std::tuple<Gates...> reject_unless;
  /// A NaN rollout log-prob means that the sampler gave none: the token then counts as if both policies agreed (TRL).
  /// Otherwise its weight becomes NaN, and every gate rejects it.
  bool unscored_is_equal = false;
};

/// Corrects old_logp over rollout_logp. The objective keeps its ratio logp over old_logp, and is weighted{}.
///
///   decoupled(importance_weight{summed_over_sequence{}, truncated{2}})
///   decoupled(no_weight{}, ratio_within<mean_over_sequence>(rollout_over_train{.low = 0.999, .high = 1.001}))
template <class Weight, class... Gates>
constexpr rollout_correction<proximal_policy, Weight, Gates...> decoupled(Weight weight, Gates... gates) {
  return {weight, std::tuple<Gates...>(gates...)};
}

/// Corrects logp over rollout_logp where no old_logp exists. With a weight, the objective is one without a ratio:
/// weighted{policy_gradient{}}. Without one, it is a ratio to the rollout policy: rollout_is{ppo_clip{}}.
template <class Weight, class... Gates>
constexpr rollout_correction<current_policy, Weight, Gates...> bypass(Weight weight, Gates... gates) {
  return {weight, std::tuple<Gates...>(gates...)};
}

/// The untreated importance weights of a step, one per token, or one per row if the level is that of the sequence. Add
/// every part; join those of other ranks with +=.
template <class Level>
class weight_sample {
 public:
  /// Log-ratios are clamped to +-`log_limit` at their level.
  explicit weight_sample(double log_limit = 20) : weight_{Level{}, untreated{}, log_limit} {}

  /// Of old_logp over rollout_logp, or with `bypass` of logp. Throws std::invalid_argument if a weight is NaN.
  template <class T>
  void add(const token_batch<T>& batch, bool bypass = false) {
    const field train = bypass ? field::logp : field::old_logp;
    const live_rows<T> rows(batch, train | field::rollout_logp, "the sample of weights");
    live_row row;
    scratch_vector<double> log_ratio, raw, weight;
    for (extent_t i = 0; i < rows.size(); ++i) {
      rows.read(i, row);
      log_ratio.resize(row.size()), raw.resize(row.size()), weight.resize(row.size());
      for (std::size_t k = 0; k < row.size(); ++k) log_ratio[k] = row[train][k] - row[field::rollout_logp][k];
      weight_({row.position(), row[train], row[field::rollout_logp], log_ratio}, raw, weight);
      const std::size_t count = Level::per_sequence ? std::min<std::size_t>(1, row.size()) : row.size();
      for (std::size_t k = 0; k < count; ++k) {
        if (std::isnan(raw[k]))
          throw std::invalid_argument("rlcore: an importance weight of row " + std::to_string(i) + " is NaN");
        values_.push_back(raw[k]);
      }
    }
  }
  /// Joins the weights of another part.
  weight_sample& operator+=(const weight_sample& other) {
    values_.insert(values_.end(), other.values_.begin(), other.values_.end());
    return *this;
  }

  /// (sum w)^2 / (N sum w^2) with w held below `high`.
  double effective_share(double high) const {
    double sum = 0, squares = 0;
    for (const double w : values_) sum += std::min(w, high), squares += std::min(w, high) * std::min(w, high);
    return squares > 0 ? sum * sum / (static_cast<double>(values_.size()) * squares) : 0;
  }

  /// The largest bound C at which the weights min(w, C) have an effective sample size of at least `share` of the
  /// sample. A share of 1 / (1 + x) holds their chi-square divergence at x. The smaller C, the larger the share, so
  /// the solution is that of one quadratic equation: between two neighbouring weights, with A and B the sums of the
  /// smaller weights and of their squares and k the number of larger ones, (A + k C)^2 = share N (B + k C^2). Infinity
  /// if no truncation is needed.
  truncated truncation_for(double share) const {
    if (!(share > 0 && share < 1))
      throw std::invalid_argument("rlcore: the share of the sample to keep is " + std::to_string(share) +
                                  "; it must be between 0 and 1");
    scratch_vector<double> w = values_;
    std::sort(w.begin(), w.end());
    const double n = static_cast<double>(w.size());
    double below = 0, squares = 0;
    for (std::size_t k = 0; k < w.size(); ++k) {
      const double larger = n - static_cast<double>(k), c = w[k];  // at C = w[k], this one and all after it are held
      const double sum = below + larger * c;
      if (sum * sum < share * n * (squares + larger * c * c)) {
        const double a = larger * larger - share * n * larger, b = below * larger,
                     d = below * below - share * n * squares;
        // a C^2 + 2 b C + d = 0 where the left side, positive at the previous weight, turns negative: hence a < 0.
        return {(-b - std::sqrt(std::max(0.0, b * b - a * d))) / a};
      }
      below += c, squares += c * c;
    }
    return {std::numeric_limits<double>::infinity()};
  }

 private:
  importance_weight<Level, untreated> weight_;
  scratch_vector<double> values_;
};

/// verl's RolloutCorrectionConfig factories (verl 0.9.1, trainer/config/algorithm.py). Decoupled ones correct old_logp
/// and go with any weighted{surrogate}. Those called bypass_ppo_clip... go with rollout_is{dual_clip{}}, bypass_pg...
/// with weighted{policy_gradient{}} (and sequence_mean_token_sum, verl's default for it). Thresholds of geo_rs are
/// those of pi_rollout / pi_train, as verl's k1 has them.
namespace verl {

/// verl's thresholds for k1: a ratio of the rollout policy to the trained one, whatever their documentation says.
inline constexpr rollout_over_train geometric_band{0.999, 1.001};

/// rollout_is = "token": min(r, threshold) of each token.
inline auto token_tis(double threshold = 2) { return importance_weight{token_level{}, truncated{threshold}}; }
/// rollout_is = "sequence": min(product of the ratios, threshold).
inline auto sequence_tis(double threshold = 2) {
  return importance_weight{summed_over_sequence{}, truncated{threshold}};
}
/// IcePop: each token's ratio, 0 outside of [low, high].
inline auto token_icepop(double high = 5, double low = 0.5) {
  return importance_weight{token_level{}, zero_outside{low, high}};
}
/// rollout_rs = "seq_mean_k1"
inline auto geo_rs(rollout_over_train band = geometric_band) { return ratio_within<mean_over_sequence>(band); }
/// rollout_rs = "seq_mean_k3"
inline auto k3_rs(double bound = 0.01) { return divergence_at_most<k3, mean_over_sequence>{.bound = bound}; }

/// Token TIS, decoupled.
inline auto decoupled_token_is(double threshold = 2) { return decoupled(token_tis(threshold)); }
/// Sequence TIS, decoupled.
inline auto decoupled_seq_is(double threshold = 2) { return decoupled(sequence_tis(threshold)); }
/// Token IcePop, decoupled.
inline auto decoupled_token_icepop(double high = 5, double low = 0.5) { return decoupled(token_icepop(high, low)); }
/// Sequence TIS, decoupled; sequences whose product of ratios leaves the band are rejected.
inline auto decoupled_seq_is_rs(double threshold = 2, rollout_over_train band = {0.5, 2}) {
  return decoupled(sequence_tis(threshold), ratio_within<summed_over_sequence>(band));
}
/// No weights, decoupled; sequences whose geometric mean leaves the band are rejected.
inline auto decoupled_geo_rs(rollout_over_train band = geometric_band) { return decoupled(no_weight{}, geo_rs(band)); }
/// The same with sequence TIS.
inline auto decoupled_geo_rs_seq_tis(double threshold = 2, rollout_over_train band = geometric_band) {
  return decoupled(sequence_tis(threshold), geo_rs(band));
}
/// The same with token TIS.
inline auto decoupled_geo_rs_token_tis(double threshold = 2, rollout_over_train band = geometric_band) {
  return decoupled(token_tis(threshold), geo_rs(band));
}
/// No weights, decoupled; sequences whose mean k3 is above the bound are rejected.
inline auto decoupled_k3_rs(double bound = 0.01) { return decoupled(no_weight{}, k3_rs(bound)); }
/// The same with sequence TIS.
inline auto decoupled_k3_rs_seq_tis(double threshold = 2, double bound = 0.01) {
  return decoupled(sequence_tis(threshold), k3_rs(bound));
}
/// The same with token TIS.
inline auto decoupled_k3_rs_token_tis(double threshold = 2, double bound = 0.01) {
  return decoupled(token_tis(threshold), k3_rs(bound));
}
/// No weights and no rejection, bypass: the ratio of the surrogate corrects.
inline auto bypass_ppo_clip() { return bypass(no_weight{}); }
/// The same; sequences whose geometric mean leaves the band are rejected.
inline auto bypass_ppo_clip_geo_rs(rollout_over_train band = geometric_band) {
  return bypass(no_weight{}, geo_rs(band));
}
/// The same; sequences whose mean k3 is above the bound are rejected.
inline auto bypass_ppo_clip_k3_rs(double bound = 0.01) { return bypass(no_weight{}, k3_rs(bound)); }
/// Sequence TIS, bypass, for the policy gradient.
inline auto bypass_pg_is(double threshold = 2) { return bypass(sequence_tis(threshold)); }
/// Token IcePop, bypass, for the policy gradient.
inline auto bypass_pg_token_icepop(double high = 5, double low = 0.5) { return bypass(token_icepop(high, low)); }
/// No weights, bypass, for the policy gradient; sequences whose geometric mean leaves the band are rejected.
inline auto bypass_pg_geo_rs(rollout_over_train band = geometric_band) { return bypass(no_weight{}, geo_rs(band)); }
/// The same with sequence TIS.
inline auto bypass_pg_geo_rs_seq_tis(double threshold = 2, rollout_over_train band = geometric_band) {
  return bypass(sequence_tis(threshold), geo_rs(band));
}
/// The same with token TIS.
inline auto bypass_pg_geo_rs_token_tis(double threshold = 2, rollout_over_train band = geometric_band) {
  return bypass(token_tis(threshold), geo_rs(band));
}
/// Only the metrics.
inline auto disabled() { return decoupled(no_weight{}); }

}  // namespace verl

/// OpenRLHF's corrections (0.11.2, models/loss.py; is_correction_level, _mode, _gating). No limit on the exponent. A
/// closed gate is a weight of 0 and not a rejection: the token stays in the denominator.
namespace openrlhf {

inline constexpr double unlimited = std::numeric_limits<double>::infinity();
/// The token's ratio as it is.
inline auto token_weight() { return importance_weight{token_level{}, untreated{}, unlimited}; }

/// token, clip: the token's ratio clamped to [low, high].
inline auto tis(double low = 0.5, double high = 5) {
  return decoupled(importance_weight{token_level{}, clamped{low, high}, unlimited});
}
/// token, mask.
inline auto icepop(double low = 0.5, double high = 5) {
  return decoupled(importance_weight{token_level{}, zero_outside{low, high}, unlimited});
}
/// seq, mask, which is called seq-mask-tis although nothing is truncated: the token's ratio as it is, in rows whose
/// geometric mean is within the bounds.
inline auto sequence_mask_untruncated(double low = 0.5, double high = 5) {
  return decoupled(
      zero_unless{token_weight(), ratio_within<mean_over_sequence>(train_over_rollout{low, high}, unlimited)});
}
/// seq, mask, gated by binary_kl: the trust region of FlashREINFORCE. Level and divergence may be others.
template <class Divergence = sampled_binary_kl, class Level = mean_over_sequence>
auto trust_region(double bound) {
  return decoupled(
      zero_unless{token_weight(), divergence_at_most<Divergence, Level>{.bound = bound, .log_limit = unlimited}});
}

}  // namespace openrlhf

/// TRL's vllm_importance_sampling_mode (1.16, trainer/grpo_trainer.py): no limit on the exponent, clip_max 3, no
/// clip_min; tokens that the sampler could not score have weight 1. sequence_mask is TRL's default.
namespace trl {

inline constexpr double unlimited = std::numeric_limits<double>::infinity();

/// Any level and treatment with TRL's conventions.
template <class Level, class Treatment>
auto importance_sampling(Level level, Treatment treatment) {
  auto rule = decoupled(importance_weight{level, treatment, unlimited});
  rule.unscored_is_equal = true;
  return rule;
}
/// token_truncate: each token's ratio clamped to [low, high].
inline auto token_truncate(double high = 3, double low = 0) {
  return importance_sampling(token_level{}, clamped{low, high});
}
/// token_mask: each token's ratio, 0 outside of [low, high].
inline auto token_mask(double high = 3, double low = 0) {
  return importance_sampling(token_level{}, zero_outside{low, high});
}
/// sequence_truncate: the product of the ratios clamped to [low, high].
inline auto sequence_truncate(double high = 3, double low = 0) {
  return importance_sampling(summed_over_sequence{}, clamped{low, high});
}
/// sequence_mask: the product of the ratios, 0 outside of [low, high].
inline auto sequence_mask(double high = 3, double low = 0) {
  return importance_sampling(summed_over_sequence{}, zero_outside{low, high});
}

}  // namespace trl

RLCORE_ALGORITHM_END
RLCORE_END
