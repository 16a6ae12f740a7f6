// The return against that of the greedy answer.
#pragma once

#include <vector>

#include "rlcore/objective/advantage/advantage_input.hpp"
#include "rlcore/objective/advantage/discounted_return.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A_t = sum of the rewards from t on, minus the reward of the greedy answer to the same prompt (ReMax, Li et al.
/// 2024). Nothing is normalised.
///
/// rewards and advantages (which may be the same) are [rows, tokens], baselines has one value per row. Masked slots are
/// not read and get 0; so have rows to be that nobody scored (filter/mask_unscored.hpp), or they get -baseline. Throws
/// std::invalid_argument for other shapes.
struct remax {
  static constexpr advantage_input reads = advantage_input::greedy_scores;
  turn_policy turns = turn_policy::skip;

  /// Writes A to `advantages`; `baselines` holds the rewards of the greedy answers.
  template <class Rewards, class Baselines, class Advantages>
  void operator()(const Rewards& rewards, const Baselines& baselines, const token_mask& mask,
                  Advantages&& advantages) const {
    const auto baseline = as_view<1>(baselines);
    const auto out = as_view<2>(advantages);
    using result = typename std::remove_cv_t<decltype(out)>::value_type;
    detail::check_per_row("baselines", baseline.shape[0], "advantages", out.shape);
    discounted_return{1.0, turns}(rewards, mask, out);
    for (extent_t i = 0; i < out.shape[0]; ++i)
      for (extent_t t = 0; t < out.shape[1]; ++t)
        if (token_block::live_bits(mask, i, t, 1) != 0)
          out(i, t) = static_cast<result>(static_cast<double>(out(i, t)) - static_cast<double>(baseline(i)));
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
