// PRIME: implicit process rewards, and the losses of their model.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/core/elementary.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/advantage/detail/groups.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/whitening.hpp"
#include "rlcore/objective/piece/piece.hpp"

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
    // A row without tokens counts as unscored.
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
                                          0);  // live tokens of rows with another row to compare with
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

/// -y log sigmoid(z) - (1 - y) log sigmoid(-z) with z = beta score and y = target, 1 for a correct answer: the
/// cross-entropy of PRIME's reward model (Cui et al. 2025), a row link for the score sum_of<log_ratio_to_reference>.
///
/// slope: beta (sigmoid(z) - y). Stable for every z (torch's binary_cross_entropy, and so the recipe, stops at 100).
struct implicit_reward_cross_entropy {
  static constexpr field reads = field::logp | field::target;
  static constexpr std::string_view name = "implicit_reward_cross_entropy";
  double beta = 0.05;

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V z = t.logp * V(beta);
    return {Math::softplus(z) - t.target * z, V(beta) * (Math::sigmoid(z) - t.target)};
  }
};

/// How implicit_reward_comparison weighs the rows of a group of n.
enum class best_of_n_weight : std::uint8_t {
  none,     ///< 1: the value is the mean over the rows
  score,    ///< n P(score_j <= score_i)^(n-1), the value is the sum
  outcome,  ///< n P(target_j <= target_i)^(n-1), the value is the sum
};

/// -log sigmoid(+-(q_i - m_i)), q = beta score, m_i the mean of q over the rows of the group with the opposite outcome:
/// for a correct row (target > 0, sign +) those with a smaller target, for a wrong one (sign -) those with a larger; 0
/// if no such row exists. A batch link, PRIME's "detach DPO": no gradient passes through m_i.
///
/// slope by score i: -+beta sigmoid(-+(q_i - m_i)), times the weight. Groups are `group_size` consecutive rows; throws
/// std::invalid_argument if the rows do not divide. Written with softplus: it does not overflow where log(sigmoid)
/// does.
struct implicit_reward_comparison {
  static constexpr field reads = field::target;
  static constexpr std::string_view name = "implicit_reward_comparison";
  static constexpr bool stops_gradient = true;
  double beta = 0.05;
  std::int64_t group_size = 1;
  best_of_n_weight weight = best_of_n_weight::none;

  /// rows[i].logp is the score of row i.
  double operator()(std::span<const token<double>> rows, std::span<double> slope) const {
    if (group_size < 1 || rows.size() % static_cast<std::size_t>(group_size) != 0)
      throw std::invalid_argument("rlcore: " + std::to_string(rows.size()) + " rows do not divide into groups of " +
                                  std::to_string(group_size));
    const auto n = static_cast<std::size_t>(group_size);
    double value = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const token<double>& row = rows[i];
      const bool good = row.target > 0;
      double others = 0, count = 0, at_most = 0;
      for (const token<double>& t : rows.subspan(i / n * n, n)) {
        if (good ? t.target < row.target : t.target > row.target) others += t.logp, ++count;
        at_most += weight == best_of_n_weight::score ? t.logp <= row.logp : t.target <= row.target;
      }
      const double sign = good ? 1.0 : -1.0;
      const double z = sign * beta * (row.logp - (count > 0 ? others / count : 0.0));
      const double size = static_cast<double>(n);
      const double factor = weight == best_of_n_weight::none ? 1 / static_cast<double>(rows.size())
                                                             : size * elementary::pow(at_most / size, size - 1);
      value += factor * exact_math::softplus(-z);
      slope[i] = -factor * sign * beta * exact_math::sigmoid(-z);
    }
    return value;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
