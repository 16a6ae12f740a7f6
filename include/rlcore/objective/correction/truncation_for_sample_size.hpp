// The truncation that keeps a wanted share of the sample.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/correction/rollout_correction.hpp"
#include "rlcore/objective/loop/live_rows.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// The untreated importance weights of a step, one per token, or one per row if the level is that of the sequence. Add
/// every part; join those of other ranks with +=.
template <class Level>
class weight_sample {
 public:
  /// Log-ratios are held within +-`log_limit` at their level.
  explicit weight_sample(double log_limit = 20) : weight_{Level{}, untreated{}, log_limit} {}

  /// Of old_logp over rollout_logp, or with `bypass` of logp. Throws std::invalid_argument if a weight is NaN.
  template <class T>
  void add(const token_batch<T>& batch, bool bypass = false) {
    const field train = bypass ? field::logp : field::old_logp;
    const live_rows<T> rows(batch, train | field::rollout_logp, "the sample of weights");
    live_row row;
    scratch_vector<double> log_ratio, raw, weight;
    for (extent_t i = 0; i < rows.size(); ++i) {
      rows.read(i, row);
      log_ratio.resize(row.size()), raw.resize(row.size()), weight.resize(row.size());
      for (std::size_t k = 0; k < row.size(); ++k) log_ratio[k] = row[train][k] - row[field::rollout_logp][k];
      weight_({row.position(), row[train], row[field::rollout_logp], log_ratio}, raw, weight);
      const std::size_t count = Level::per_sequence ? std::min<std::size_t>(1, row.size()) : row.size();
      for (std::size_t k = 0; k < count; ++k) {
        if (std::isnan(raw[k]))
          throw std::invalid_argument("rlcore: an importance weight of row " + std::to_string(i) + " is NaN");
        values_.push_back(raw[k]);
      }
    }
  }
  /// Joins the weights of another part.
  weight_sample& operator+=(const weight_sample& other) {
    values_.insert(values_.end(), other.values_.begin(), other.values_.end());
    return *this;
  }

  /// (sum w)^2 / (N sum w^2) with w held below `high`.
  double effective_share(double high) const {
    double sum = 0, squares = 0;
    for (const double w : values_) sum += std::min(w, high), squares += std::min(w, high) * std::min(w, high);
    return squares > 0 ? sum * sum / (static_cast<double>(values_.size()) * squares) : 0;
  }

  /// The largest bound C at which the weights min(w, C) have an effective sample size of at least `share` of the
  /// sample. A share of 1 / (1 + x) holds their chi-square divergence at x. The smaller C, the larger the share, so
  /// the solution is that of one quadratic equation: between two neighbouring weights, with A and B the sums of the
  /// smaller weights and of their squares and k the number of larger ones, (A + k C)^2 = share N (B + k C^2). Infinity
  /// if no truncation is needed.
  truncated truncation_for(double share) const {
    if (!(share > 0 && share < 1))
      throw std::invalid_argument("rlcore: the share of the sample to keep is " + std::to_string(share) +
                                  "; it must be between 0 and 1");
    scratch_vector<double> w = values_;
    std::sort(w.begin(), w.end());
    const double n = static_cast<double>(w.size());
    double below = 0, squares = 0;
    for (std::size_t k = 0; k < w.size(); ++k) {
      const double larger = n - static_cast<double>(k), c = w[k];  // at C = w[k], this one and all after it are held
      const double sum = below + larger * c;
      if (sum * sum < share * n * (squares + larger * c * c)) {
        const double a = larger * larger - share * n * larger, b = below * larger,
                     d = below * below - share * n * squares;
        // a C^2 + 2 b C + d = 0 where the left side, positive at the previous weight, turns negative: hence a < 0.
        return {(-b - std::sqrt(std::max(0.0, b * b - a * d))) / a};
      }
      below += c, squares += c * c;
    }
    return {std::numeric_limits<double>::infinity()};
  }

 private:
  importance_weight<Level, untreated> weight_;
  scratch_vector<double> values_;
};

RLCORE_ALGORITHM_END
RLCORE_END
