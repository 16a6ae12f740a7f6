// The tokens at which the policy is least certain.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/selection/mark_tokens.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// The entropies of all live tokens of a step. Add every part; join those of other ranks with +=.
class entropy_sample {
 public:
  /// Throws std::invalid_argument if an entropy is NaN.
  template <class T>
  void add(const token_batch<T>& batch) {
    const live_rows<T> rows(batch, field::entropy, "the high-entropy selection");
    live_row row;
    for (extent_t i = 0; i < rows.size(); ++i) {
      rows.read(i, row);
      for (std::size_t k = 0; k < row.size(); ++k) {
        const double h = row[field::entropy][k];
        if (std::isnan(h))
          throw std::invalid_argument("rlcore: the entropy of row " + std::to_string(i) + ", token " +
                                      std::to_string(row.position()[k]) + " is NaN");
        values_.push_back(h);
      }
    }
  }
  /// Joins the entropies of another part.
  entropy_sample& operator+=(const entropy_sample& other) {
    values_.insert(values_.end(), other.values_.begin(), other.values_.end());
    return *this;
  }

  /// The q-quantile with linear interpolation between neighbours (torch.quantile, numpy "linear"); infinity if empty.
  double quantile(double q) const {
    if (!(q >= 0 && q <= 1)) throw std::invalid_argument("rlcore: a quantile is in 0 ... 1, not " + std::to_string(q));
    if (values_.empty()) return std::numeric_limits<double>::infinity();
    const double rank = q * static_cast<double>(values_.size() - 1);
    const auto below = static_cast<std::size_t>(rank);
    scratch_vector<double> v = values_;
    const auto at = v.begin() + static_cast<std::ptrdiff_t>(below);
    std::nth_element(v.begin(), at, v.end());
    const double low = *at, share = rank - static_cast<double>(below);
    if (share == 0) return low;
    const double high = *std::min_element(at + 1, v.end());
    return share < 0.5 ? low + share * (high - low) : high - (high - low) * (1 - share);
  }

 private:
  scratch_vector<double> values_;
};

/// The tokens whose entropy is at least the (1 - share)-quantile of the entropies of all live tokens of the step (Wang
/// et al. 2025, "Beyond the 80/20 Rule"; TRL top_entropy_quantile). token_filter{surrogate} trains on them alone; the
/// others still count in the denominator.
struct high_entropy {
  double share = 0.2;  ///< the paper's; TRL's default is 1, all tokens

  /// Writes field::selected of one part: 1 at the tokens of high entropy, else 0; `step` has the entropies of all
  /// parts.
  template <class T>
  void mark(const entropy_sample& step, const token_batch<T>& batch,
            const std::type_identity_t<token_field<T>>& selected) const {
    const double threshold = step.quantile(1 - share);
    mark_tokens<T>(batch, selected, field::entropy, [&](extent_t, const live_row& row, std::span<double> keep) {
      for (std::size_t k = 0; k < keep.size(); ++k) keep[k] = row[field::entropy][k] >= threshold ? 1 : 0;
    });
  }
};

/// For a batch that is the whole step.
template <class T>
void select(const high_entropy& rule, const token_batch<T>& batch,
            const std::type_identity_t<token_field<T>>& selected) {
  entropy_sample step;
  step.add(batch);
  rule.mark(step, batch, selected);
}

RLCORE_ALGORITHM_END
RLCORE_END
