// The rollout corrections of verl, OpenRLHF and TRL under their names, with their defaults.
#pragma once

#include <limits>

#include "rlcore/objective/correction/rollout_correction.hpp"
#include "rlcore/objective/piece/divergence/k2.hpp"
#include "rlcore/objective/piece/divergence/k3.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// verl's RolloutCorrectionConfig factories (verl 0.9.1, trainer/config/algorithm.py). Decoupled ones correct old_logp
/// and go with any weighted{surrogate}. Those called bypass_ppo_clip... go with rollout_is{dual_clip{}},
/// bypass_pg... with weighted{policy_gradient{}} (and sequence_mean_token_sum, verl's default there). Thresholds of
/// geo_rs are those of pi_rollout / pi_train, as verl's k1 has them.
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

/// token, clip: the token's ratio held in [low, high].
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
/// token_truncate: each token's ratio held in [low, high].
inline auto token_truncate(double high = 3, double low = 0) {
  return importance_sampling(token_level{}, clamped{low, high});
}
/// token_mask: each token's ratio, 0 outside of [low, high].
inline auto token_mask(double high = 3, double low = 0) {
  return importance_sampling(token_level{}, zero_outside{low, high});
}
/// sequence_truncate: the product of the ratios held in [low, high].
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
