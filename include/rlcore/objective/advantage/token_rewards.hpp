// Between one reward per row and one per token.
#pragma once

#include <cmath>

#include "rlcore/objective/advantage/detail/token_block.hpp"
#include "rlcore/objective/piece/divergence/kl_kind.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// r_t = -coefficient kl_t at each live token, plus the score of the row at its last live token: what verl
/// (use_kl_in_reward) and OpenRLHF feed to GAE and REINFORCE++. The estimator looks at the old policy, so nothing here
/// has a gradient. For one response at a time see kl_in_reward.
///
/// scores has one value per row, the rest is [rows, tokens]. Masked slots are not read and get 0; a row without live
/// tokens has no place for its score and is all 0. A NaN score (unscored row) leaves only the penalty: the
/// row is still trained unless filter/mask_unscored.hpp has masked it before. Throws std::invalid_argument for other
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
/// what stands in masked slots never counts.
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

RLCORE_ALGORITHM_END
RLCORE_END
