// The policy losses of verl that are not its "vanilla" one, as a single piece with a switch.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

#include "rlcore/objective/piece/combine/against_old.hpp"
#include "rlcore/objective/piece/combine/token_filter.hpp"
#include "rlcore/objective/piece/divergence/abs_kl.hpp"
#include "rlcore/objective/piece/score/gather.hpp"
#include "rlcore/objective/piece/surrogate/cispo.hpp"
#include "rlcore/objective/piece/surrogate/geometric_mean_ratio.hpp"
#include "rlcore/objective/piece/surrogate/importance_ratio.hpp"
#include "rlcore/objective/piece/surrogate/limited_log_ratio.hpp"
#include "rlcore/objective/piece/surrogate/policy_gradient.hpp"
#include "rlcore/objective/piece/surrogate/ppo_clip.hpp"
#include "rlcore/objective/piece/surrogate/sapo.hpp"
#include "rlcore/objective/piece/surrogate/sequence_is.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// actor.policy_loss.loss_mode.
enum class policy_loss_mode : std::uint8_t { vanilla, gspo, gpg, clip_cov, kl_cov, geo_mean, sapo, cispo };

/// What verl_surrogate gathers over a row: logp - old_logp, with `clipped` held by the widths of GMPO.
struct verl_log_ratio {
  static constexpr field reads = clipped_log_ratio::reads;
  static constexpr std::string_view name = "log_ratio";
  bool clipped = false;
  double low = 0.2, high = 0.2;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    if (clipped) return clipped_log_ratio{low, high}.template operator()<Math, V>(t);
    return {t.logp - t.old_logp, V(1)};
  }
};

/// The policy piece of namespace verl's gspo(), gpg(), clip_cov(), kl_cov(), gmpo(), sapo() or cispo(), chosen at run
/// time: one loop is compiled for all of them. `selected` is read by clip_cov and kl_cov. geo_mean means something with
/// one advantage per row only (geometric_mean_ratio), which the caller has to see to. Monitors as in verl's logs.
struct verl_surrogate {
  using gathers = mean_of<verl_log_ratio>;
  static constexpr field reads = field::logp | field::old_logp | field::advantage | field::selected | field::gathered;
  static constexpr std::string_view name = "policy";
  static constexpr std::array<std::string_view, 3> monitors{"clipfrac", "clipfrac_lower", "ppo_kl"};
  policy_loss_mode mode = policy_loss_mode::gspo;
  double clip_low = 0.2, clip_high = 0.2;
  double ppo_kl_coef = 0.1;                      ///< of kl_cov
  double tau_positive = 1, tau_negative = 1.05;  ///< of sapo

  constexpr verl_log_ratio score() const noexcept { return {mode == policy_loss_mode::geo_mean, clip_low, clip_high}; }

  template <class Math, class V>
  RLCORE_FN term<V, 3> operator()(const token<V>& t) const noexcept {
    const V distance = t.logp - t.old_logp;
    const ppo_clip clipped{.low = clip_low, .high = clip_high};
    switch (mode) {
      case policy_loss_mode::gspo: {
        constexpr double none = -std::numeric_limits<double>::infinity();
        const auto r = sequence_is{limited_log_ratio{clipped, none, 10.0}}.template operator()<Math, V>(t);
        return {r.value, r.slope, {r.monitor[0], V(0), -distance}};
      }
      case policy_loss_mode::gpg: {
        const auto r = policy_gradient{}.template operator()<Math, V>(t);
        return {r.value, r.slope, {V(0), V(0), -distance}};
      }
      case policy_loss_mode::clip_cov: {
        const auto r = except_selected{clipped}.template operator()<Math, V>(t);
        return {r.value, r.slope, {Math::select(t.selected != V(0), V(1), V(0)), V(0), -distance}};
      }
      case policy_loss_mode::kl_cov: {
        const auto r = importance_ratio{}.template operator()<Math, V>(t);
        const auto kl = token_filter{against_old{abs_kl{}}}.template operator()<Math, V>(t);
        const V held = V(ppo_kl_coef);
        return {r.value + held * kl.value, r.slope + held * kl.slope, {V(0), V(0), Math::abs(distance)}};
      }
      case policy_loss_mode::geo_mean: {
        const auto r = geometric_mean_ratio{.low = clip_low, .high = clip_high}.template operator()<Math, V>(t);
        return {r.value, r.slope, {r.monitor[0], r.monitor[1], -distance}};
      }
      case policy_loss_mode::sapo: {
        const sapo gate{.temperature_positive = tau_positive, .temperature_negative = tau_negative};
        const auto r = limited_log_ratio{gate}.template operator()<Math, V>(t);
        return {r.value, r.slope, {V(0), V(0), -Math::clamp(distance, V(-20), V(20))}};
      }
      case policy_loss_mode::cispo:
      case policy_loss_mode::vanilla:
        break;
    }
    const cispo bounded{ratio_epsilon{.high = clip_high, .low = clip_low}};
    const auto r = limited_log_ratio{bounded}.template operator()<Math, V>(t);
    return {r.value, r.slope, {r.monitor[0], V(0), -distance}};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
