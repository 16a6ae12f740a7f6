// What the importance weights of a step look like.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "rlcore/core/compiler.hpp"
#include "rlcore/simd/exact_sum.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Sums over rows; join the reports of micro-batches and ranks with += in any order. Means over sequences are means
/// over rows with live tokens. Everything is 0 if there are none.
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
  /// What self-normalised weights are divided by: the mean over sequences or over tokens, by the level of the weight.
  double normalizer() const noexcept { return per_sequence ? mean_of_sequences() : mean(); }

 private:
  static double ratio(double sum, std::int64_t n) noexcept { return n > 0 ? sum / static_cast<double>(n) : 0.0; }
  exact_sum sum_, squares_, means_, mean_squares_;
};

RLCORE_ALGORITHM_END
RLCORE_END
