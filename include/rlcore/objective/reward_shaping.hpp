// Reward shaping by length, repetition and truncation: DAPO's overlong penalty, cosine length, Kimi k1.5, L1, ProRL.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/elementary.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/advantage/token_rewards.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// One response and its reward so far. A shaping is a callable `double operator()(const response&) const` that returns
/// the next reward. A reward of NaN marks an unscored row; every shaping leaves it NaN.
struct response {
  double reward = 0;
  std::int64_t length = 0;  ///< in tokens
  bool truncated = false;   ///< stopped by the length limit, not by an end-of-sequence token

  constexpr bool scored() const noexcept { return reward == reward; }
};

/// reward_shaping{soft_overlong{...}, scale_truncated{0.5}}: each sees the reward that the one before it returned. The
/// order is part of the type: whether a penalty is scaled with the reward or added to the scaled one cannot be
/// confused. Later stages, e.g. clipping and the baseline, belong to in_order.
template <class... Shapings>
struct reward_shaping {
  std::tuple<Shapings...> shapings;

  /// The shapings in the order in which they are applied.
  constexpr explicit reward_shaping(Shapings... s) : shapings(s...) {}

  /// The reward that the last shaping returns.
  constexpr double operator()(response r) const {
    std::apply([&r](const Shapings&... shaping) { ((r.reward = shaping(r)), ...); }, shapings);
    return r.reward;
  }
};

/// Kimi k1.5's length reward (Kimi Team 2025, section 2.3.3): with lambda = 1/2 - (length - shortest) / (longest -
/// shortest) over the answers to one prompt, a right answer gets lambda, a wrong one min(0, lambda), and all get 0 if
/// they are equally long. To be added to the rewards, times a weight.
struct length_relative {
  /// One group; right[i] is not 0 for right answers. Throws std::invalid_argument if sizes differ.
  template <class Flag>
  void operator()(std::span<const std::int64_t> length, std::span<const Flag> right, std::span<double> bonus) const {
    if (right.size() != length.size() || bonus.size() != length.size())
      throw std::invalid_argument("rlcore: lengths are [" + std::to_string(length.size()) + "], right is [" +
                                  std::to_string(right.size()) + "], bonus is [" + std::to_string(bonus.size()) + "]");
    if (length.empty()) return;
    const auto [shortest, longest] = std::minmax_element(length.begin(), length.end());
    const auto range = static_cast<double>(*longest - *shortest);
    for (std::size_t i = 0; i < length.size(); ++i) {
      const double lambda = range > 0 ? 0.5 - static_cast<double>(length[i] - *shortest) / range : 0.0;
      bonus[i] = right[i] != Flag(0) ? lambda : std::min(0.0, lambda);
    }
  }
};

/// long + (short - long) (1 + cos(pi min(length / max_length, 1))) / 2, with ends for right and for wrong responses
/// (Yeo et al. 2025, "Demystifying Long Chain-of-Thought Reasoning", appendix C.1). A right answer earns more if it is
/// short; a wrong one loses less if it is long, so that longer thinking pays. The defaults are TRL's.
struct cosine_length {
  std::int64_t max_length = 0;
  double right_short = 1.0, right_long = 0.5, wrong_short = -1.0, wrong_long = -0.5;

  /// Throws std::invalid_argument unless max_length > 0.
  double operator()(bool right, std::int64_t length) const {
    if (max_length < 1)
      throw std::invalid_argument("rlcore: cosine_length needs max_length > 0, it is " + std::to_string(max_length));
    const double progress = std::min(static_cast<double>(length) / static_cast<double>(max_length), 1.0);
    const double at_start = right ? right_short : wrong_short, at_end = right ? right_long : wrong_long;
    return at_end + 0.5 * (at_start - at_end) * (1.0 + elementary::cos(progress * std::numbers::pi));
  }

  /// Replaces the reward; what was above 0 counts as right.
  double operator()(const response& r) const { return r.scored() ? (*this)(r.reward > 0, r.length) : r.reward; }
};

/// -factor * clamp((length - (max_length - buffer)) / buffer, 0, limit): 0 up to max_length - buffer, then falling by
/// `factor` over `buffer` tokens (DAPO, Yu et al. 2025, eq. 13). With limit = 1 it stays at -factor beyond max_length
/// (the paper, OpenRLHF, MindSpeed-RL, TRL); with limit = infinity it keeps falling (verl). buffer = 0: -factor * limit
/// beyond max_length, as in TRL; the limit must then be finite.
struct soft_overlong {
  std::int64_t max_length = 0, buffer = 0;
  double factor = 1.0, limit = 1.0;

  /// Throws std::invalid_argument unless 0 <= buffer <= max_length, and for buffer = 0 without a finite limit.
  constexpr double penalty(std::int64_t length) const {
    if (buffer < 0 || buffer > max_length)
      throw std::invalid_argument("rlcore: soft_overlong needs 0 <= buffer <= max_length, they are " +
                                  std::to_string(buffer) + " and " + std::to_string(max_length));
    if (buffer == 0 && !(limit - limit == 0))
      throw std::invalid_argument(
          "rlcore: soft_overlong with buffer 0 needs a finite limit; a penalty that falls on "
          "needs buffer > 0");
    const std::int64_t excess = length - (max_length - buffer);
    if (excess <= 0) return 0.0;
    if (buffer == 0) return -factor * limit;
    return -std::min(static_cast<double>(excess) / static_cast<double>(buffer), limit) * factor;
  }

  /// Adds the penalty.
  constexpr double operator()(const response& r) const { return r.reward + penalty(r.length); }
};

/// LCPO (L1, Aggarwal and Welleck 2025). exact: right - rate |target - length|. at_most: right * clamp(rate (target -
/// length) + slack, 0, 1), where `target` is a budget.
struct target_length {
  double rate = 3e-4, slack = 0.5;

  /// The reward of an answer of `length` tokens where `target` were requested.
  double exact(bool right, std::int64_t target, std::int64_t length) const noexcept {
    return (right ? 1.0 : 0.0) - rate * std::abs(static_cast<double>(target - length));
  }
  /// The reward of an answer of `length` tokens where at most `budget` were requested; 0 if it is wrong.
  double at_most(bool right, std::int64_t budget, std::int64_t length) const noexcept {
    return right ? std::clamp(rate * static_cast<double>(budget - length) + slack, 0.0, 1.0) : 0.0;
  }
};

/// penalty * (1 - distinct n-grams / n-grams) of a response's token ids; 0 for fewer than n tokens (Yeo et al. 2025,
/// appendix C.2). The defaults are TRL's.
struct repetition_penalty {
  std::size_t n = 3;
  double penalty = -1.0;

  /// Throws std::invalid_argument for n = 0 or a penalty above 0.
  template <class Token>
  double operator()(std::span<const Token> ids) const {
    if (n == 0 || penalty > 0)
      throw std::invalid_argument("rlcore: repetition_penalty needs n > 0 and penalty <= 0, they are " +
                                  std::to_string(n) + " and " + std::to_string(penalty));
    if (ids.size() < n) return 0.0;
    const auto gram = [&](std::size_t i) { return ids.subspan(i, n); };
    scratch_vector<std::size_t> order(ids.size() - n + 1);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::lexicographical_compare(gram(a).begin(), gram(a).end(), gram(b).begin(), gram(b).end());
    });
    const auto last = std::unique(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::equal(gram(a).begin(), gram(a).end(), gram(b).begin());
    });
    const auto distinct = static_cast<double>(last - order.begin());
    const double repeated = 1.0 - distinct / static_cast<double>(order.size());
    return repeated > 0 ? repeated * penalty : 0.0;
  }
};

/// reward * factor for truncated responses (OpenRLHF's stop_properly_penalty_coef from 0 to 1; ProRL, Liu et al. 2025).
/// Makes a negative reward smaller in size.
struct scale_truncated {
  double factor = 0.0;
  /// The next reward.
  constexpr double operator()(const response& r) const noexcept { return r.truncated ? r.reward * factor : r.reward; }
};

/// A fixed reward for truncated responses, whatever their content (OpenRLHF's stop_properly_penalty_coef below 0).
struct replace_truncated {
  double reward = -1.0;
  /// The next reward; NaN (an unscored row) stays NaN.
  constexpr double operator()(const response& r) const noexcept {
    return r.truncated && r.scored() ? reward : r.reward;
  }
};

/// reward - penalty for truncated responses, which have no end-of-sequence token (missing_eos_penalty of TRL's PPO).
struct missing_eos_penalty {
  double penalty = 1.0;
  /// The next reward.
  constexpr double operator()(const response& r) const noexcept { return r.truncated ? r.reward - penalty : r.reward; }
};

/// kl_in_reward with an estimator of your own: divergence_in_reward{value_clamped{k1{}}, 0.01} is OpenRLHF's, whose
/// estimators are limited to 10 either way; {k3{}, 0.05} and {k1{}, 0.05} are those of TRL's PPO and RLOO.
template <class Divergence>
struct divergence_in_reward {
  static constexpr bool kl_in_reward = true;
  [[no_unique_address]] Divergence divergence;
  double coefficient = 0.001;

  /// The penalty `coefficient_` times the estimate of `d`.
  constexpr explicit divergence_in_reward(Divergence d, double coefficient_ = 0.001)
      : divergence(d), coefficient(coefficient_) {}

  /// Token rewards of one response, all of whose tokens are live: -coefficient kl_t, plus the score at the last.
  /// `reward` may be empty if only the totals are wanted. Throws std::invalid_argument if sizes differ.
  template <class T>
  shaped_reward operator()(double score, std::span<const T> old_logp, std::span<const T> ref_logp,
                           std::span<T> reward = {}) const {
    return detail::shape_reward<Divergence, T>(divergence, coefficient, score, old_logp, ref_logp, reward);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
