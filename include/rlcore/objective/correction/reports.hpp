// Off-policy metrics of rollouts: reports of importance weights and divergences.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "rlcore/core/compiler.hpp"
#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/correction/importance_weight.hpp"
#include "rlcore/simd/exact_sum.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Sums over rows; join the reports of micro-batches and ranks with += in any order. Means over sequences are means
/// over rows with live tokens. Everything is 0 without such rows.
class weight_report {
 public:
  bool per_sequence = false;          ///< the weight is one number per sequence
  std::int64_t tokens = 0;            ///< live tokens
  std::int64_t sequences = 0;         ///< rows with live tokens
  std::int64_t above = 0, below = 0;  ///< tokens whose weight was beyond the bounds before its treatment
  std::int64_t sequences_above = 0, sequences_below = 0;  ///< sequences whose mean weight was
  std::int64_t zero = 0, sequences_zero = 0;              ///< tokens, and entire sequences, of weight 0
  double smallest = std::numeric_limits<double>::infinity(), largest = -smallest;  ///< of the tokens' weights
  double smallest_sequence = smallest, largest_sequence = -smallest;               ///< of the sequences' mean weights

  /// Adds a row: the weights of its live tokens before and after the treatment, and the treatment's bounds.
  RLCORE_FN void add_row(std::span<const double> raw, std::span<const double> weight, double low,
                         double high) noexcept {
    if (weight.empty()) return;
    double sum = 0, squares = 0, raw_sum = 0;
    std::int64_t zeros = 0;
    for (std::size_t k = 0; k < weight.size(); ++k) {
      const double w = weight[k];
      sum += w, squares += w * w, raw_sum += raw[k];
      above += raw[k] > high, below += raw[k] < low, zeros += w == 0;
      smallest = std::min(smallest, w), largest = std::max(largest, w);
    }
    const double n = static_cast<double>(weight.size()), mean = sum / n;
    tokens += static_cast<std::int64_t>(weight.size());
    sequences += 1;
    zero += zeros, sequences_zero += zeros == static_cast<std::int64_t>(weight.size());
    sequences_above += raw_sum / n > high, sequences_below += raw_sum / n < low;
    smallest_sequence = std::min(smallest_sequence, mean), largest_sequence = std::max(largest_sequence, mean);
    sum_.add(sum), squares_.add(squares), means_.add(mean), mean_squares_.add(mean * mean);
  }

  /// Joins the sums of another part.
  weight_report& operator+=(const weight_report& other) noexcept {
    per_sequence |= other.per_sequence;
    tokens += other.tokens, sequences += other.sequences;
    above += other.above, below += other.below;
    sequences_above += other.sequences_above, sequences_below += other.sequences_below;
    zero += other.zero, sequences_zero += other.sequences_zero;
    smallest = std::min(smallest, other.smallest), largest = std::max(largest, other.largest);
    smallest_sequence = std::min(smallest_sequence, other.smallest_sequence);
    largest_sequence = std::max(largest_sequence, other.largest_sequence);
    sum_ += other.sum_, squares_ += other.squares_, means_ += other.means_, mean_squares_ += other.mean_squares_;
    return *this;
  }

  /// Mean weight of a token.
  double mean() const noexcept { return ratio(sum_.value(), tokens); }
  /// Mean over sequences of the mean weight of their tokens.
  double mean_of_sequences() const noexcept { return ratio(means_.value(), sequences); }
  double deviation() const noexcept {
    return std::sqrt(std::max(0.0, ratio(squares_.value(), tokens) - mean() * mean()));
  }
  /// Of the sequences' mean weights, with n - 1.
  double deviation_of_sequences() const noexcept {
    if (sequences < 2) return 0;
    const double n = static_cast<double>(sequences), m = mean_of_sequences();
    return std::sqrt(std::max(0.0, (mean_squares_.value() - n * m * m) / (n - 1)));
  }
  /// Effective sample size over the sample size, (sum w)^2 / (N sum w^2) (Kish): 1 if all weights are equal.
  double effective_sample_share() const noexcept {
    const double s = sum_.value(), q = squares_.value();
    return q > 0 ? s * s / (static_cast<double>(tokens) * q) : 0;
  }
  double above_share() const noexcept { return ratio(static_cast<double>(above), tokens); }
  double below_share() const noexcept { return ratio(static_cast<double>(below), tokens); }
  double zero_share() const noexcept { return ratio(static_cast<double>(zero), tokens); }
  /// The denominator of self-normalised weights: the mean over sequences or over tokens, by the level of the weight.
  double normalizer() const noexcept { return per_sequence ? mean_of_sequences() : mean(); }

 private:
  static double ratio(double sum, std::int64_t n) noexcept { return n > 0 ? sum / static_cast<double>(n) : 0.0; }
  exact_sum sum_, squares_, means_, mean_squares_;
};

/// Sums over rows of u = log train - log rollout; join with += in any order. Means over sequences are means over rows
/// with live tokens. Everything is 0 without such rows.
class off_policy_report {
 public:
  std::int64_t tokens = 0, sequences = 0;
  std::int64_t unscored = 0;      ///< tokens without a rollout log-prob, left out of everything
  double largest_difference = 0;  ///< largest |u|
  double largest_log_ppl_ratio = -std::numeric_limits<double>::infinity();  ///< over sequences
  double smallest_log_ppl_ratio = std::numeric_limits<double>::infinity();

  /// Adds a row. Tokens whose rollout log-prob is NaN are left out if `skip_unscored`.
  RLCORE_FN void add_row(const log_ratio_row& row, bool skip_unscored = false) noexcept {
    using lanes = pack<double>;
    const lanes zero(0.0), limit(20.0);
    lanes u_lanes = zero, size_lanes = zero, k3_lanes = zero, squared_lanes = zero, train_lanes = zero,
          rollout_lanes = zero, count = zero, largest_lanes = zero;
    correction::for_each_pack(row.train, row.rollout, [&](lanes p, lanes q, lane_mask<double> present, std::size_t) {
      const lane_mask<double> seen = skip_unscored ? present & (q == q) : present;
      const auto add = [&](lanes& sum, lanes x) { sum += choose(seen, x, zero); };
      const lanes u = p - q, held = fast_math::clamp(u, -limit, limit);
      add(u_lanes, u), add(size_lanes, fast_math::abs(u)), add(k3_lanes, fast_math::excess(u));
      add(squared_lanes, fast_math::exp(held + held)), add(train_lanes, p), add(rollout_lanes, q);
      add(count, lanes(1.0));
      largest_lanes = fast_math::max(largest_lanes, choose(seen, fast_math::abs(u), zero));
    });
    const double u_sum = sum_lanes(u_lanes), size = sum_lanes(size_lanes), k3 = sum_lanes(k3_lanes);
    const double squared = sum_lanes(squared_lanes), train = sum_lanes(train_lanes), rollout = sum_lanes(rollout_lanes);
    double largest = 0;
    for (std::size_t k = 0; k < lanes::lanes; ++k) largest = std::max(largest, largest_lanes.v[k]);
    const auto n = static_cast<std::int64_t>(sum_lanes(count));
    unscored += static_cast<std::int64_t>(row.train.size()) - n;
    if (n == 0) return;
    tokens += n, sequences += 1;
    largest_difference = std::max(largest_difference, largest);
    const double length = static_cast<double>(n), log_ratio = (rollout - train) / length;
    largest_log_ppl_ratio = std::max(largest_log_ppl_ratio, log_ratio);
    smallest_log_ppl_ratio = std::min(smallest_log_ppl_ratio, log_ratio);
    u_.add(u_sum), size_.add(size), k3_.add(k3), squared_.add(squared);
    product_squared_.add(elementary::exp(2 * detail::limited(u_sum, 20)));
    train_log_ppl_.add(-train / length), train_ppl_.add(elementary::exp(-train / length));
    rollout_log_ppl_.add(-rollout / length), rollout_ppl_.add(elementary::exp(-rollout / length));
    ppl_ratio_.add(elementary::exp(log_ratio)), log_ppl_size_.add(std::abs(log_ratio));
  }

  /// Joins the sums of another part.
  off_policy_report& operator+=(const off_policy_report& other) noexcept {
    tokens += other.tokens, sequences += other.sequences, unscored += other.unscored;
    largest_difference = std::max(largest_difference, other.largest_difference);
    largest_log_ppl_ratio = std::max(largest_log_ppl_ratio, other.largest_log_ppl_ratio);
    smallest_log_ppl_ratio = std::min(smallest_log_ppl_ratio, other.smallest_log_ppl_ratio);
    u_ += other.u_, size_ += other.size_, k3_ += other.k3_, squared_ += other.squared_;
    product_squared_ += other.product_squared_, train_log_ppl_ += other.train_log_ppl_;
    train_ppl_ += other.train_ppl_, rollout_log_ppl_ += other.rollout_log_ppl_, rollout_ppl_ += other.rollout_ppl_;
    ppl_ratio_ += other.ppl_ratio_, log_ppl_size_ += other.log_ppl_size_;
    return *this;
  }

  /// KL(rollout || train), mean over tokens: of -u, and of e^u - 1 - u.
  double k1() const noexcept { return -over(u_, tokens); }
  double k3() const noexcept { return over(k3_, tokens); }
  double mean_difference() const noexcept { return over(size_, tokens); }  ///< of |u|
  /// Pearson's chi-square of train from rollout, E[(train / rollout)^2] - 1, of tokens and of whole sequences; the
  /// exponent clamped to +-20.
  double chi_square_token() const noexcept { return tokens > 0 ? over(squared_, tokens) - 1 : 0.0; }
  double chi_square_sequence() const noexcept { return sequences > 0 ? over(product_squared_, sequences) - 1 : 0.0; }
  /// Means over sequences of their perplexities, and of their logarithms.
  double train_perplexity() const noexcept { return over(train_ppl_, sequences); }
  double rollout_perplexity() const noexcept { return over(rollout_ppl_, sequences); }
  double train_log_perplexity() const noexcept { return over(train_log_ppl_, sequences); }
  double rollout_log_perplexity() const noexcept { return over(rollout_log_ppl_, sequences); }
  /// Mean over sequences of train's perplexity over rollout's.
  double perplexity_ratio() const noexcept { return over(ppl_ratio_, sequences); }
  double mean_log_ppl_ratio() const noexcept { return train_log_perplexity() - rollout_log_perplexity(); }
  double mean_size_of_log_ppl_ratio() const noexcept { return over(log_ppl_size_, sequences); }

 private:
  static double over(const exact_sum& s, std::int64_t n) noexcept {
    return n > 0 ? s.value() / static_cast<double>(n) : 0.0;
  }
  exact_sum u_, size_, k3_, squared_, product_squared_;
  exact_sum train_log_ppl_, train_ppl_, rollout_log_ppl_, rollout_ppl_, ppl_ratio_, log_ppl_size_;
};

RLCORE_ALGORITHM_END
RLCORE_END
