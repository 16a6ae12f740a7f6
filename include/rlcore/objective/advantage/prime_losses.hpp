// How PRIME trains the reward model whose log-ratios are its process rewards.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
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

/// -log sigmoid(+-(q_i - m_i)), q = beta score, m_i the mean of q over the rows of the group with the other outcome:
/// for a correct row (target > 0, sign +) those with a smaller target, for a wrong one (sign -) those with a larger; 0
/// if there is none. A batch link, PRIME's "detach DPO": no gradient passes through m_i.
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
