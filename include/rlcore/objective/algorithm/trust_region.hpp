// Policy gradients within a trust region that is not PPO's clip.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation/token_mean.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/piece/combine/against_old.hpp"
#include "rlcore/objective/piece/combine/scaled.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/combine/token_filter.hpp"
#include "rlcore/objective/piece/divergence/abs_kl.hpp"
#include "rlcore/objective/piece/divergence/k2.hpp"
#include "rlcore/objective/piece/surrogate/dppo.hpp"
#include "rlcore/objective/piece/surrogate/importance_ratio.hpp"
#include "rlcore/objective/piece/surrogate/policy_gradient.hpp"
#include "rlcore/objective/piece/surrogate/ppo_clip.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

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
