// Process rewards that an outcome reward model implies.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/advantage/detail/outcome.hpp"
#include "rlcore/objective/advantage/discounted_return.hpp"
#include "rlcore/objective/advantage/whitening.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// r_t = beta (logp of the reward model - logp of the reference): the reward of each token that a reward model of the
/// form beta log-ratio implies (Yuan et al. 2024, "Free process rewards without process labels"). The last live token
/// carries it too, unlike in the recipe of PRIME for verl, which leaves it to the outcome: last_token = false.
struct implicit_process_reward {
  double beta = 0.05;
  bool last_token = true;

  /// All are [rows, tokens]; masked slots are not read and get 0. Throws std::invalid_argument for other shapes.
  template <class Model, class Ref, class Rewards>
  void operator()(const Model& model_logp, const Ref& ref_logp, const token_mask& mask, Rewards&& rewards) const {
    const auto model = as_view<2>(model_logp);
    const auto ref = as_view<2>(ref_logp);
    const auto out = as_view<2>(rewards);
    using result = typename std::remove_cv_t<decltype(out)>::value_type;
    detail::check_shape("ref_logp", ref.shape, "log-probs of the model", model.shape);
    detail::check_shape("rewards", out.shape, "log-probs of the model", model.shape);
    detail::check_mask_shape(mask, "log-probs of the model", model.shape);
    for (extent_t i = 0; i < out.shape[0]; ++i) {
      bool last = !last_token;
      for (extent_t t = out.shape[1]; t-- > 0;) {
        const bool live = token_block::live_bits(mask, i, t, 1) != 0;
        out(i, t) =
            live && !last
                ? static_cast<result>(beta * (static_cast<double>(model(i, t)) - static_cast<double>(ref(i, t))))
                : result(0);
        if (live) last = false;
      }
    }
  }
};

/// Advantages from process rewards and outcomes (PRIME, Cui et al. 2025). Within each group of n rows with tokens,
/// either source is centred leave-one-out, r~ = (n r - sum_j mean_j) / (n - 1) with mean_j the token mean of row j on
/// the slots of that source (all live tokens; the last live token); the sources are added with their coefficients,
/// summed from each token to the end, and whitened over the tokens. Defaults are those of PRIME's recipe for verl.
///
/// Rows without tokens, and rows whose outcome is NaN (unscored), are left out of the group and get 0; so does a group
/// of one. Equal outcomes contribute exactly 0. Masked slots are not read and get 0.
struct prime {
  double process_coefficient = 5, outcome_coefficient = 5;
  whitening whiten{};

  /// rewards, advantages and returns are [rows, tokens], outcomes has one value per row. `returns` are those before
  /// whitening. Throws std::invalid_argument for other shapes.
  template <class Rewards, class Outcomes, class Groups, class Advantages, class Returns>
  void operator()(const Rewards& process_rewards, const Outcomes& outcomes, const token_mask& mask,
                  const Groups& groups, Advantages&& advantages, Returns&& returns) const {
    const auto reward = as_view<2>(process_rewards);
    const scratch_vector<double> outcome = detail::read_numbers("outcome", outcomes);
    detail::check_per_row("outcomes", static_cast<extent_t>(outcome.size()), "rewards", reward.shape);
    detail::check_mask_shape(mask, "rewards", reward.shape);
    const extent_t rows = reward.shape[0], tokens = reward.shape[1];
    const auto live = [&](std::size_t i, extent_t t) {
      return token_block::live_bits(mask, static_cast<extent_t>(i), t, 1) != 0;
    };
    // A row without tokens is made unscored: it takes part in nothing.
    scratch_vector<double> scored = outcome, mean(outcome.size(), 0.0);
    scratch_vector<extent_t> last(outcome.size(), -1);
    for (std::size_t i = 0; i < outcome.size(); ++i) {
      double count = 0;
      for (extent_t t = 0; t < tokens; ++t)
        if (live(i, t)) mean[i] += static_cast<double>(reward(static_cast<extent_t>(i), t)), ++count, last[i] = t;
      if (count > 0)
        mean[i] /= count;
      else
        scored[i] = std::nan("");
    }
    scratch_vector<double> shaped(static_cast<std::size_t>(rows * tokens), 0.0);
    scratch_vector<std::uint8_t> compared(shaped.size(),
                                          0);  // live tokens of rows that have somebody to be compared with
    const matrix_view<double> r(shaped.data(), {rows, tokens});
    detail::each_scored_group(
        scored, detail::group_rows(rows, groups),
        [&](std::span<const double> score, std::span<const std::size_t> row, std::span<double>) {
          const auto n = static_cast<double>(row.size());
          if (row.size() < 2) return;
          double process = 0, outcomes_together = 0;
          for (std::size_t k = 0; k < row.size(); ++k) process += mean[row[k]], outcomes_together += score[k];
          const bool flat = detail::group_summary(score).flat;
          for (std::size_t k = 0; k < row.size(); ++k) {
            const auto i = static_cast<extent_t>(row[k]);
            for (extent_t t = 0; t < tokens; ++t)
              if (live(row[k], t)) {
                r(i, t) = process_coefficient * (n * static_cast<double>(reward(i, t)) - process) / (n - 1);
                compared[static_cast<std::size_t>(i * tokens + t)] = 1;
              }
            if (!flat) r(i, last[row[k]]) += outcome_coefficient * (n * score[k] - outcomes_together) / (n - 1);
          }
        });
    const token_mask counts(matrix(compared, rows, tokens));
    discounted_return{}(r, counts, returns);
    whiten(returns, counts, advantages);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
