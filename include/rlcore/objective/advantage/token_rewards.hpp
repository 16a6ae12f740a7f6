// Token rewards: the score at the last token, minus a KL penalty; reward clipping.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/detail/tokens.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/tensor/span.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// r_t = -coefficient kl_t at each live token, plus the score of the row at its last live token: what verl
/// (use_kl_in_reward) and OpenRLHF feed to GAE and REINFORCE++. The estimator looks at the old policy, so nothing here
/// has a gradient. For one response at a time see kl_in_reward.
///
/// scores has one value per row, the rest is [rows, tokens]. Masked slots are not read and get 0; a row without live
/// tokens has no place for its score and is all 0. A NaN score (unscored row) leaves only the penalty: the
/// row is still trained unless objective/filter.hpp has masked it before. Throws std::invalid_argument for other
/// shapes.
struct token_rewards {
  kl_kind kind = kl_kind::k1;
  double coefficient = 0.001;

  /// The reward with its penalty: kl_t estimates by `kind` the KL of the old policy from the reference.
  template <class Scores, class Old, class Ref, class Rewards>
  void operator()(const Scores& scores, const Old& old_logp, const Ref& ref_logp, const token_mask& mask,
                  Rewards&& rewards) const {
    const auto old_view = as_view<2>(old_logp);
    const auto ref_view = as_view<2>(ref_logp);
    const auto out = as_view<2>(rewards);
    detail::check_shape("old_logp", old_view.shape, "rewards", out.shape);
    detail::check_shape("ref_logp", ref_view.shape, "rewards", out.shape);
    visit_divergence(kind, [&](auto estimator) {
      fill(scores, mask, out, [&](extent_t i, extent_t t) {
        token<double> x{};
        x.logp = static_cast<double>(old_view(i, t));
        x.ref_logp = static_cast<double>(ref_view(i, t));
        return -coefficient * estimator.template operator()<exact_math, double>(x).value;
      });
      return 0;
    });
  }
  /// Without penalty: the score at the last live token, 0 elsewhere.
  template <class Scores, class Rewards>
  void operator()(const Scores& scores, const token_mask& mask, Rewards&& rewards) const {
    fill(scores, mask, as_view<2>(rewards), [](extent_t, extent_t) { return 0.0; });
  }

 private:
  template <class Scores, class Out, class F>
  static void fill(const Scores& scores, const token_mask& mask, const Out& out, F penalty) {
    using result = typename Out::value_type;
    const auto score = as_view<1>(scores);
    detail::check_per_row("scores", score.shape[0], "rewards", out.shape);
    detail::check_mask_shape(mask, "rewards", out.shape);
    for (extent_t i = 0; i < out.shape[0]; ++i) {
      double last = static_cast<double>(score(i));
      if (std::isnan(last)) last = 0;
      for (extent_t t = out.shape[1]; t-- > 0;) {
        if (token_block::live_bits(mask, i, t, 1) == 0) {
          out(i, t) = result(0);
          continue;
        }
        out(i, t) = static_cast<result>(penalty(i, t) + last);
        last = 0;
      }
    }
  }
};

/// The reward of every row: the sum over its live tokens, in double. Estimators with one reward per row are given this;
/// masked slots never count.
template <class Rewards, class Totals>
void row_totals(const Rewards& rewards_per_token, const token_mask& mask, Totals&& totals) {
  const auto reward = as_view<2>(rewards_per_token);
  const auto total = as_view<1>(totals);
  detail::check_per_row("totals", total.shape[0], "rewards", reward.shape);
  detail::check_mask_shape(mask, "rewards", reward.shape);
  for (extent_t i = 0; i < reward.shape[0]; ++i) {
    double sum = 0;
    for (extent_t t = 0; t < reward.shape[1]; ++t)
      if (token_block::live_bits(mask, i, t, 1) != 0) sum += static_cast<double>(reward(i, t));
    total(i) = static_cast<typename std::remove_cv_t<decltype(total)>::value_type>(sum);
  }
}

/// Reward and KL of one response.
struct shaped_reward {
  double reward = 0;  ///< sum of the token rewards: score - coefficient * kl
  double kl = 0;      ///< sum of the estimator over the tokens
  /// The same per token; 0 for an empty response. verl's logs and the controllers use its mean over rows.
  double mean_kl = 0;
};

namespace detail {

/// The body of kl_in_reward and divergence_in_reward.
template <class Divergence, class T>
shaped_reward shape_reward(const Divergence& divergence, double coefficient, double score, std::span<const T> old_logp,
                           std::span<const T> ref_logp, std::span<T> reward) {
  const std::size_t tokens = old_logp.size();
  if (ref_logp.size() != tokens || (!reward.empty() && reward.size() != tokens))
    throw std::invalid_argument("rlcore: old_logp is [" + std::to_string(tokens) + "], ref_logp is [" +
                                std::to_string(ref_logp.size()) + "], reward is [" + std::to_string(reward.size()) +
                                "]");
  shaped_reward result;
  for (std::size_t t = 0; t < tokens; ++t) {
    token<double> x{};
    x.logp = static_cast<double>(old_logp[t]), x.ref_logp = static_cast<double>(ref_logp[t]);
    const double kl = divergence.template operator()<exact_math, double>(x).value;
    result.kl += kl;
    if (!reward.empty()) reward[t] = static_cast<T>((t + 1 == tokens ? score : 0.0) - coefficient * kl);
  }
  result.reward = score - coefficient * result.kl;
  result.mean_kl = tokens > 0 ? result.kl / static_cast<double>(tokens) : 0.0;
  return result;
}

}  // namespace detail

/// Token rewards r_t = -coefficient kl_t, plus the score at the last token (verl's use_kl_in_reward; the estimator
/// looks at the old policy, so this carries no gradient). All tokens given are live.
struct kl_in_reward {
  kl_kind kind = kl_kind::k1;
  double coefficient = 0.001;

  /// One response. `reward` may be empty if only the totals are wanted. Throws std::invalid_argument if sizes differ.
  shaped_reward operator()(double score, std::span<const float> old_logp, std::span<const float> ref_logp,
                           std::span<float> reward = {}) const {
    return visit_divergence(kind, [&](auto estimator) {
      return detail::shape_reward<decltype(estimator), float>(estimator, coefficient, score, old_logp, ref_logp,
                                                              reward);
    });
  }
};

/// min(max(R, low), high) in place; NaN (an unscored row) stays. Its place relative to an estimator matters: TRL's RLOO
/// clips before the baseline, OpenRLHF after the group normalisation, with a default of (-10, 10). See in_order.
struct reward_clip {
  double low = -10, high = 10;

  constexpr void check_settings() const {
    check_setting("reward_clip", "low", low, setting::number);
    check_setting("reward_clip", "high", high, setting::number);
    check_order("reward_clip", "low", low, "high", high);
  }

  /// Changes `rewards` in place. Throws std::invalid_argument if the range is empty or a bound is NaN.
  template <class Rewards>
  void operator()(Rewards&& rewards) const {
    if (!(low <= high))
      throw std::invalid_argument("rlcore: reward_clip from " + std::to_string(low) + " to " + std::to_string(high));
    const auto v = as_view<1>(rewards);
    using number = typename std::remove_cv_t<decltype(v)>::value_type;
    for (extent_t i = 0; i < v.shape[0]; ++i)
      if (v(i) < static_cast<number>(low))
        v(i) = static_cast<number>(low);
      else if (v(i) > static_cast<number>(high))
        v(i) = static_cast<number>(high);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
