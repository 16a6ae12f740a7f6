// How far the policy that is trained is from the one that sampled.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/correction/importance_weight.hpp"
#include "rlcore/simd/exact_sum.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Sums over rows of u = log train - log rollout; join with += in any order. Means over sequences are means over rows
/// with live tokens. Everything is 0 if there are none.
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
    correction::for_each_pack(row.train, row.rollout, [&](lanes p, lanes q, lane_mask<double> there, std::size_t) {
      const lane_mask<double> seen = skip_unscored ? there & (q == q) : there;
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
  /// exponent held in +-20.
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
