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

inline auto token_tis(double threshold = 2) { return importance_weight{token_level{}, truncated{threshold}}; }
inline auto sequence_tis(double threshold = 2) {
  return importance_weight{summed_over_sequence{}, truncated{threshold}};
}
inline auto token_icepop(double high = 5, double low = 0.5) {
  return importance_weight{token_level{}, zero_outside{low, high}};
}
/// rollout_rs = "seq_mean_k1"
inline auto geo_rs(rollout_over_train band = geometric_band) { return ratio_within<mean_over_sequence>(band); }
/// rollout_rs = "seq_mean_k3"
inline auto k3_rs(double bound = 0.01) { return divergence_at_most<k3, mean_over_sequence>{.bound = bound}; }

inline auto decoupled_token_is(double threshold = 2) { return decoupled(token_tis(threshold)); }
inline auto decoupled_seq_is(double threshold = 2) { return decoupled(sequence_tis(threshold)); }
inline auto decoupled_token_icepop(double high = 5, double low = 0.5) { return decoupled(token_icepop(high, low)); }
inline auto decoupled_seq_is_rs(double threshold = 2, rollout_over_train band = {0.5, 2}) {
  return decoupled(sequence_tis(threshold), ratio_within<summed_over_sequence>(band));
}
inline auto decoupled_geo_rs(rollout_over_train band = geometric_band) { return decoupled(no_weight{}, geo_rs(band)); }
inline auto decoupled_geo_rs_seq_tis(double threshold = 2, rollout_over_train band = geometric_band) {
  return decoupled(sequence_tis(threshold), geo_rs(band));
}
inline auto decoupled_geo_rs_token_tis(double threshold = 2, rollout_over_train band = geometric_band) {
  return decoupled(token_tis(threshold), geo_rs(band));
}
inline auto decoupled_k3_rs(double bound = 0.01) { return decoupled(no_weight{}, k3_rs(bound)); }
inline auto decoupled_k3_rs_seq_tis(double threshold = 2, double bound = 0.01) {
  return decoupled(sequence_tis(threshold), k3_rs(bound));
}
inline auto decoupled_k3_rs_token_tis(double threshold = 2, double bound = 0.01) {
  return decoupled(token_tis(threshold), k3_rs(bound));
}
inline auto bypass_ppo_clip() { return bypass(no_weight{}); }
inline auto bypass_ppo_clip_geo_rs(rollout_over_train band = geometric_band) {
  return bypass(no_weight{}, geo_rs(band));
}
inline auto bypass_ppo_clip_k3_rs(double bound = 0.01) { return bypass(no_weight{}, k3_rs(bound)); }
inline auto bypass_pg_is(double threshold = 2) { return bypass(sequence_tis(threshold)); }
inline auto bypass_pg_token_icepop(double high = 5, double low = 0.5) { return bypass(token_icepop(high, low)); }
inline auto bypass_pg_geo_rs(rollout_over_train band = geometric_band) { return bypass(no_weight{}, geo_rs(band)); }
inline auto bypass_pg_geo_rs_seq_tis(double threshold = 2, rollout_over_train band = geometric_band) {
  return bypass(sequence_tis(threshold), geo_rs(band));
}
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

template <class Level, class Treatment>
auto importance_sampling(Level level, Treatment treatment) {
  auto rule = decoupled(importance_weight{level, treatment, unlimited});
  rule.unscored_is_equal = true;
  return rule;
}
inline auto token_truncate(double high = 3, double low = 0) {
  return importance_sampling(token_level{}, clamped{low, high});
}
inline auto token_mask(double high = 3, double low = 0) {
  return importance_sampling(token_level{}, zero_outside{low, high});
}
inline auto sequence_truncate(double high = 3, double low = 0) {
  return importance_sampling(summed_over_sequence{}, clamped{low, high});
}
inline auto sequence_mask(double high = 3, double low = 0) {
  return importance_sampling(summed_over_sequence{}, zero_outside{low, high});
}

}  // namespace trl

RLCORE_ALGORITHM_END
RLCORE_END
