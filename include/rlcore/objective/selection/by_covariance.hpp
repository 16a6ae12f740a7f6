// Tokens by the covariance of their advantage and their log-prob, which is what lowers the entropy (Cui et al. 2025,
// "The Entropy Mechanism of Reinforcement Learning for Reasoning Language Models").
#pragma once

#include <algorithm>
#include <cstdint>

#include "rlcore/core/elementary.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/objective/selection/token_choice.hpp"
#include "rlcore/simd/exact_sum.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Means of advantage and logp over the live tokens of the step. Add every part before tokens are offered; join with
/// +=.
class covariance_means {
 public:
  /// Adds the live tokens of one part. Throws std::invalid_argument if logp or advantage is missing or shapes differ.
  template <class T>
  void add(const token_batch<T>& batch) {
    const live_rows<T> rows(batch, field::logp | field::advantage, "the covariance");
    live_row row;
    for (extent_t i = 0; i < rows.size(); ++i) {
      rows.read(i, row);
      double a = 0, l = 0;
      for (std::size_t k = 0; k < row.size(); ++k) a += row[field::advantage][k], l += row[field::logp][k];
      advantage_.add(a), logp_.add(l);
      tokens_ += static_cast<std::int64_t>(row.size());
    }
  }
  /// Joins the sums of another part.
  covariance_means& operator+=(const covariance_means& other) noexcept {
    advantage_ += other.advantage_, logp_ += other.logp_, tokens_ += other.tokens_;
    return *this;
  }
  std::int64_t tokens() const noexcept { return tokens_; }
  double advantage() const noexcept { return tokens_ > 0 ? advantage_.value() / static_cast<double>(tokens_) : 0; }
  double logp() const noexcept { return tokens_ > 0 ? logp_.value() / static_cast<double>(tokens_) : 0; }

 private:
  exact_sum advantage_, logp_;
  std::int64_t tokens_ = 0;
};

/// Clip-Cov: of the tokens with low < (A - mean A)(logp - mean logp) < high that the surrogate does not clip already,
/// max(1, floor(share N)) are drawn uniformly; except_selected{ppo_clip{}} then leaves them out of the update. The
/// defaults are verl's. Draws depend on (key, row of the step, token) alone.
struct clip_covariance {
  double low = 1, high = 5;
  double share = 2e-4;
  double clip_low = 0.2, clip_high = 0.2;  ///< of the surrogate
  random_key key{};

  /// Offers the tokens of one part, whose first row is row `first_row` of the step.
  template <class T>
  void offer(const token_batch<T>& batch, std::int64_t first_row, const covariance_means& means,
             token_choice& choice) const {
    const live_rows<T> rows(batch, field::logp | field::old_logp | field::advantage, "Clip-Cov");
    const double a_mean = means.advantage(), l_mean = means.logp();
    live_row row;
    for (extent_t i = 0; i < rows.size(); ++i) {
      rows.read(i, row);
      const auto global = static_cast<std::uint64_t>(first_row + i);
      for (std::size_t k = 0; k < row.size(); ++k) {
        const double a = row[field::advantage][k], l = row[field::logp][k];
        const double ratio = elementary::exp(l - row[field::old_logp][k]);
        const double held = std::clamp(ratio, 1 - clip_low, 1 + clip_high);
        const double covariance = (a - a_mean) * (l - l_mean);
        if (!(covariance > low && covariance < high) || a * ratio > a * held) continue;
        const auto token = static_cast<std::uint64_t>(row.position()[k]);
        const double drawn = key.uniform(static_cast<std::uint32_t>(global), static_cast<std::uint32_t>(global >> 32),
                                         static_cast<std::uint32_t>(token), static_cast<std::uint32_t>(token >> 32));
        choice.offer(drawn, first_row + i, row.position()[k]);
      }
    }
  }
};

/// KL-Cov: the max(1, floor(share N)) tokens of largest covariance, which token_filter{a divergence} then holds back.
/// The default is verl's. Ties go to the earlier row and token.
struct kl_covariance {
  double share = 2e-4;

  /// Offers the tokens of one part, whose first row is row `first_row` of the step.
  template <class T>
  void offer(const token_batch<T>& batch, std::int64_t first_row, const covariance_means& means,
             token_choice& choice) const {
    const live_rows<T> rows(batch, field::logp | field::advantage, "KL-Cov");
    const double a_mean = means.advantage(), l_mean = means.logp();
    live_row row;
    for (extent_t i = 0; i < rows.size(); ++i) {
      rows.read(i, row);
      for (std::size_t k = 0; k < row.size(); ++k)
        choice.offer((row[field::advantage][k] - a_mean) * (row[field::logp][k] - l_mean), first_row + i,
                     row.position()[k]);
    }
  }
};

/// select(clip_covariance{...}, batch, selected) for a batch that is the whole step. verl does this for every
/// micro-batch by itself. For a step in parts: covariance_means::add for each, offer for each, mark for each.
template <class Rule, class T>
requires requires(const Rule& rule, const token_batch<T>& b, const covariance_means& m, token_choice& c) {
  rule.offer(b, std::int64_t{}, m, c);
}
void select(const Rule& rule, const token_batch<T>& batch, const std::type_identity_t<token_field<T>>& selected) {
  covariance_means means;
  means.add(batch);
  auto choice = token_choice::share_of(rule.share, means.tokens());
  rule.offer(batch, 0, means, choice);
  mark(choice, batch, 0, selected);
}

RLCORE_ALGORITHM_END
RLCORE_END
