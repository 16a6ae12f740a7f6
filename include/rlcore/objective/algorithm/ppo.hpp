// PPO, DPPO, DRO, Clip-Cov, KL-Cov.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/piece/combine/reweighted.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/objective/piece/surrogate/plain.hpp"
#include "rlcore/objective/piece/surrogate/trust_region.hpp"
#include "rlcore/objective/piece/value.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// PPO (Schulman et al. 2017) as InstructGPT and its successors use it: gae{}, to be whitened; the clipped surrogate;
/// the mean over all tokens. The KL penalty is in the reward (kl_in_reward). The critic has a loss of its own.
struct ppo_settings {
  double clip_low = 0.2, clip_high = 0.2;
  double gamma = 1.0, lambda = 0.95;
};
/// The actor's three parts with these settings. Throws std::invalid_argument unless clip_low, gamma and lambda are in
/// [0, 1] and clip_high is at least 0.
constexpr auto ppo(const ppo_settings& s = {}) {
  detail::check_clip("ppo", s.clip_low, s.clip_high);
  check_setting("ppo", "gamma", s.gamma, setting::fraction);
  check_setting("ppo", "lambda", s.lambda, setting::fraction);
  return algorithm{gae{.gamma = s.gamma, .lambda = s.lambda}, ppo_clip{.low = s.clip_low, .high = s.clip_high},
                   token_mean{}};
}

/// The critic's half: clipped squared error of field::value against field::target (the returns), around
/// field::old_value.
struct ppo_critic_settings {
  double range = 0.2;
};
/// The critic's loss with these settings. Throws std::invalid_argument unless range is at least 0.
constexpr auto ppo_critic(const ppo_critic_settings& s = {}) {
  check_setting("ppo_critic", "range", s.range, setting::width);
  return algorithm{no_advantage{}, clipped_value{.range = s.range}, token_mean{}};
}

/// DPPO (Qi et al. 2026), by total variation or by KL: tokens that would leave the region get no gradient.
constexpr auto dppo_tv(rlcore::dppo_tv surrogate = {}) { return algorithm{group_relative{}, surrogate, token_mean{}}; }
/// The same by KL.
constexpr auto dppo_kl(rlcore::dppo_kl surrogate = {}) { return algorithm{group_relative{}, surrogate, token_mean{}}; }

/// DRO (Richemond et al. 2024): policy gradient plus beta / 2 times the squared log-ratio to the old policy.
struct dro_settings {
  double beta = 1.0;
};
/// The three parts of DRO with these settings. Throws std::invalid_argument unless beta is finite and at least 0.
constexpr auto dro(const dro_settings& s = {}) {
  check_setting("dro", "beta", s.beta, setting::coefficient);
  return algorithm{group_relative{}, sum{policy_gradient{}, scaled{s.beta, against_old{k2{}}}}, token_mean{}};
}

/// Clip-Cov (Cui et al. 2025): the tokens that clip_covariance{} put into field::selected take no part.
struct clip_cov_settings {
  double clip_low = 0.2, clip_high = 0.2;
};
/// The three parts of Clip-Cov with these settings. Throws std::invalid_argument unless clip_low is in [0, 1] and
/// clip_high at least 0.
constexpr auto clip_cov(const clip_cov_settings& s = {}) {
  detail::check_clip("clip_cov", s.clip_low, s.clip_high);
  return algorithm{group_relative{}, except_selected{ppo_clip{.low = s.clip_low, .high = s.clip_high}}, token_mean{}};
}

/// KL-Cov (the same paper): the ratio without a clip, and kappa |logp - old_logp| on the selected tokens.
struct kl_cov_settings {
  double kappa = 1.0;
};
/// The three parts of KL-Cov with these settings. Throws std::invalid_argument unless kappa is finite and at least 0.
constexpr auto kl_cov(const kl_cov_settings& s = {}) {
  check_setting("kl_cov", "kappa", s.kappa, setting::coefficient);
  return algorithm{group_relative{}, sum{importance_ratio{}, scaled{s.kappa, token_filter{against_old{abs_kl{}}}}},
                   token_mean{}};
}

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
