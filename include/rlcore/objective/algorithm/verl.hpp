// The algorithms as verl computes them, with the defaults of its configuration: 0.9.1, or the version that the template
// argument names where versions differ.
//
// Every clipped surrogate of verl's "vanilla" loss has a dual bound of 3 and a log-ratio within +-20; where verl's code
// differs from a paper, the difference is here and nowhere else. Means over rows count those that are masked out, as
// with the global batch size that verl's engines pass. verl's KL loss is with_kl(a, 0.001, clamped_k3{}), its entropy
// bonus with_entropy(a, coefficient); its other loss_agg_modes are with_aggregation(a, ...).
#pragma once

#include <cstdint>
#include <limits>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/estimator.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/advantage/reinforce_plus_plus.hpp"
#include "rlcore/objective/advantage/rloo.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/piece/combine/reweighted.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"
#include "rlcore/objective/piece/surrogate/sequence.hpp"
#include "rlcore/objective/piece/surrogate/trust_region.hpp"
#include "rlcore/objective/piece/value.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace verl {

/// A release of verl, in their order; docs/verl_versions.md lists what differs between them.
enum class version : std::uint8_t {
  august_2025,  ///< commit 28f6e4af7 of 2025-08-15, between 0.5.0 and 0.6.0
  v0_6_1,
  v0_8_0,
  v0_9_1
};

/// The default version.
inline constexpr version newest = version::v0_9_1;

/// How the returns of reinforce_plus_plus pass masked tokens: through 0.8.0 later turns contributed nothing.
constexpr turn_policy turns_of_returns(version v) noexcept {
  return v < version::v0_9_1 ? turn_policy::reset : turn_policy::skip;
}

/// clip_ratio_low, clip_ratio_high, clip_ratio_c. All three are checked, also by losses that read the first two alone.
struct clip_settings {
  double clip_low = 0.2, clip_high = 0.2, clip_c = 3.0;
  constexpr void check_settings() const {
    check_setting("verl::clip_settings", "clip_low", clip_low, setting::width);
    check_setting("verl::clip_settings", "clip_high", clip_high, setting::width);
    check_setting("verl::clip_settings", "clip_c", clip_c, setting::bound_above_1);
  }
  constexpr dual_clip vanilla() const {
    check_settings();
    return {.low = clip_low, .high = clip_high, .bound = clip_c};
  }
  constexpr ppo_clip plain() const {
    check_settings();
    return {.low = clip_low, .high = clip_high};
  }
};

/// adv_estimator=gae, to be whitened.
constexpr auto ppo(const clip_settings& s = {}) { return algorithm{gae{}, s.vanilla(), token_mean{}}; }
/// cliprange_value=0.5; aggregated as the actor's loss.
constexpr auto ppo_critic(clipped_value loss = {}) { return algorithm{no_advantage{}, loss, token_mean{}}; }
/// adv_estimator=grpo.
constexpr auto grpo(const clip_settings& s = {}) { return algorithm{group_relative{}, s.vanilla(), token_mean{}}; }
/// norm_adv_by_std_in_grpo=False, loss_agg_mode=seq-mean-token-sum-norm; `length` is loss_scale_factor, the
/// longest response allowed if that is not set. Before 0.8.0 the loss was not divided by the number of rows.
template <version Version = newest>
constexpr auto dr_grpo(double length, const clip_settings& s = {}) {
  check_setting("verl::dr_grpo", "length", length, setting::positive);
  const group_relative advantage{.normalize_by_std = false};
  if constexpr (Version < version::v0_8_0)
    return algorithm{advantage, s.vanilla(), fixed_length_unaveraged{length}};
  else
    return algorithm{advantage, s.vanilla(), row_mean_fixed_length{length}};
}
/// The recipe: clip_ratio_high=0.28, clip_ratio_c=10.
constexpr auto dapo(const clip_settings& s = {.clip_high = 0.28, .clip_c = 10.0}) {
  return algorithm{group_relative{}, s.vanilla(), token_mean{}};
}
/// adv_estimator=grpo_passk.
constexpr auto pass_at_k(const clip_settings& s = {}) {
  return algorithm{rlcore::pass_at_k{}, s.vanilla(), token_mean{}};
}
/// adv_estimator=rloo: a single answer keeps its reward (rloo_vectorized gives it 0).
constexpr auto rloo(const clip_settings& s = {}) {
  return algorithm{rlcore::rloo{.singleton = singleton_group::reward}, s.vanilla(), token_mean{}};
}
/// adv_estimator=reinforce_plus_plus. Through 0.8.0 returns ended at masked tokens (turns_of_returns).
template <version Version = newest>
constexpr auto reinforce_plus_plus(const clip_settings& s = {}) {
  return algorithm{rlcore::reinforce_plus_plus{.turns = turns_of_returns(Version)}, s.vanilla(), token_mean{}};
}
/// adv_estimator=reinforce_plus_plus_baseline.
constexpr auto reinforce_plus_plus_baseline(const clip_settings& s = {}) {
  return algorithm{rlcore::reinforce_plus_plus_baseline{}, s.vanilla(), token_mean{}};
}
/// adv_estimator=remax.
constexpr auto remax(const clip_settings& s = {}) { return algorithm{rlcore::remax{}, s.vanilla(), token_mean{}}; }
/// adv_estimator=opo.
constexpr auto opo(const clip_settings& s = {}) { return algorithm{rlcore::opo{}, s.vanilla(), token_mean{}}; }
/// adv_estimator=gpg, loss_mode=gpg: the weight counts answers with a non-zero reward, not informative groups.
constexpr auto gpg() {
  return algorithm{rlcore::gpg{.count = gpg_count::nonzero_rewards}, policy_gradient{}, token_mean{}};
}
/// loss_mode=gspo: the log of the sequence's ratio is held below 10. Advantages and weights may differ from token to
/// token, and verl takes any loss_agg_mode, so this is not one_per_sequence. Through 0.8.0 loss_agg_mode was ignored
/// for seq-mean-token-mean, in 0.6.1 without the rows that are masked out; GSPO's paper has that, too.
template <version Version = newest>
constexpr auto gspo(const clip_settings& s = {}) {
  const sequence_is surrogate{limited_log_ratio{s.plain(), -std::numeric_limits<double>::infinity(), 10.0}};
  if constexpr (Version >= version::v0_9_1)
    return algorithm{group_relative{}, surrogate, token_mean{}};
  else if constexpr (Version == version::v0_6_1)
    return algorithm{group_relative{}, surrogate, sequence_mean_token_mean{}};
  else
    return algorithm{group_relative{}, surrogate, row_mean_token_mean{}};
}
/// loss_mode=geo_mean: clip_ratio_low and clip_ratio_high are widths in log space.
constexpr auto gmpo(const clip_settings& s = {}) {
  s.check_settings();
  return algorithm{group_relative{}, counts_outside{geometric_mean_ratio{.low = s.clip_low, .high = s.clip_high}},
                   row_mean_token_mean{}};
}
/// loss_mode=sapo: always seq-mean-token-mean.
constexpr auto sapo(rlcore::sapo surrogate = {}) {
  return algorithm{group_relative{}, limited_log_ratio{surrogate}, row_mean_token_mean{}};
}
/// loss_mode=cispo: both bounds, 1 - clip_ratio_low and 1 + clip_ratio_high.
constexpr auto cispo(const clip_settings& s = {}) {
  s.check_settings();
  return algorithm{group_relative{},
                   limited_log_ratio{rlcore::cispo{ratio_epsilon{.high = s.clip_high, .low = s.clip_low}}},
                   token_mean{}};
}
/// loss_mode=clip_cov; the tokens come from clip_covariance.
constexpr auto clip_cov(const clip_settings& s = {}) {
  return algorithm{group_relative{}, except_selected{s.plain()}, token_mean{}};
}
/// loss_mode=kl_cov with ppo_kl_coef; the tokens come from kl_covariance.
constexpr auto kl_cov(double ppo_kl_coef = 0.1) {
  check_setting("verl::kl_cov", "ppo_kl_coef", ppo_kl_coef, setting::coefficient);
  return algorithm{group_relative{}, sum{importance_ratio{}, scaled{ppo_kl_coef, token_filter{against_old{abs_kl{}}}}},
                   token_mean{}};
}
/// loss_mode=dppo_tv, dppo_kl: clip_ratio_low and clip_ratio_high bound the divergence.
constexpr auto dppo_tv(const clip_settings& s = {}) {
  s.check_settings();
  return algorithm{group_relative{}, rlcore::dppo_tv{.low = s.clip_low, .high = s.clip_high, .bound = s.clip_c},
                   token_mean{}};
}
/// loss_mode=dppo_kl: clip_ratio_low and clip_ratio_high bound the divergence.
constexpr auto dppo_kl(const clip_settings& s = {}) {
  s.check_settings();
  return algorithm{group_relative{}, rlcore::dppo_kl{.low = s.clip_low, .high = s.clip_high, .bound = s.clip_c},
                   token_mean{}};
}
/// loss_mode=dro; dro_beta has no default in verl.
constexpr auto dro(double dro_beta) {
  check_setting("verl::dro", "dro_beta", dro_beta, setting::coefficient);
  return algorithm{group_relative{}, sum{policy_gradient{}, scaled{dro_beta, against_old{k2{}}}}, token_mean{}};
}

}  // namespace verl

RLCORE_ALGORITHM_END
RLCORE_END
