// Token selection by entropy or covariance: high-entropy tokens, Clip-Cov, KL-Cov.
//
// Tokens by the covariance of their advantage and their log-prob, which is what lowers the entropy (Cui et al. 2025,
// "The Entropy Mechanism of Reinforcement Learning for Reasoning Language Models").
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "rlcore/core/elementary.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/loop/live_rows.hpp"
#include "rlcore/simd/exact_sum.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Calls decide(i, row, keep) for each row; keep starts as zeros and gets 1 for the live tokens that are selected.
/// Writes it to `selected`, 0 in all other slots. If the batch has a selection already, the two are combined by `and`:
/// `selected` may be the same memory.
template <class T, class Decide>
void mark_tokens(const token_batch<T>& batch, const std::type_identity_t<token_field<T>>& selected, field reads,
                 const Decide& decide) {
  // Some field that has the batch's shape.
  field fields = reads | (batch.selected.present() ? field::selected : field::none);
  const std::array<const token_field<const T>*, 4> any{&batch.logp, &batch.old_logp, &batch.entropy, &batch.advantage};
  const std::array<field, 4> names{field::logp, field::old_logp, field::entropy, field::advantage};
  for (std::size_t k = 0; k < any.size() && fields == field::none; ++k)
    if (any[k]->present()) fields = names[k];
  const live_rows<T> rows(batch, fields, "the selection");
  const auto out = rows.target("selected", selected);
  live_row row;
  scratch_vector<double> keep;
  for (extent_t i = 0; i < rows.size(); ++i) {
    rows.read(i, row);
    keep.assign(row.size(), 0.0);
    decide(i, static_cast<const live_row&>(row), std::span<double>(keep));
    if (batch.selected.present())
      for (std::size_t k = 0; k < keep.size(); ++k)
        if (row[field::selected][k] == 0) keep[k] = 0;
    rows.write(out, i, row, keep);
  }
}

/// Keeps the `limit` tokens of highest priority among all that are offered; ties go to the earlier row, then to the
/// earlier token. Rows are numbered over the whole step, so the result depends neither on the order of offers nor on
/// the split into micro-batches and ranks. Join with +=.
class token_choice {
 public:
  /// One token of the step and its priority.
  struct candidate {
    double priority;
    std::int64_t row, token;
  };

  /// Keeps `limit` tokens at most.
  explicit token_choice(std::size_t limit) : limit_(limit) {}
  /// max(1, floor(share * tokens)) tokens: the count of Clip-Cov and KL-Cov.
  static token_choice share_of(double share, std::int64_t tokens) {
    if (!(share > 0 && share <= 1))
      throw std::invalid_argument("rlcore: the share of tokens to choose is " + std::to_string(share) +
                                  "; it must be above 0 and at most 1");
    return token_choice(static_cast<std::size_t>(std::max(1.0, std::floor(share * static_cast<double>(tokens)))));
  }

  /// NaN is never chosen.
  void offer(double priority, std::int64_t row, std::int64_t token) {
    if (priority != priority) return;
    best_.push_back({priority, row, token});
    if (best_.size() >= 2 * limit_ + 64) prune();
  }
  /// Joins the tokens kept by another part; the limit does not change.
  token_choice& operator+=(const token_choice& other) {
    best_.insert(best_.end(), other.best_.begin(), other.best_.end());
    prune();
    return *this;
  }

  /// The chosen tokens, by row and token.
  scratch_vector<candidate> chosen() const {
    token_choice done = *this;
    done.prune();
    std::sort(done.best_.begin(), done.best_.end(), [](const candidate& a, const candidate& b) {
      return a.row != b.row ? a.row < b.row : a.token < b.token;
    });
    return done.best_;
  }

 private:
  static bool before(const candidate& a, const candidate& b) noexcept {
    if (a.priority != b.priority) return a.priority > b.priority;
    return a.row != b.row ? a.row < b.row : a.token < b.token;
  }
  void prune() {
    if (best_.size() <= limit_) return;
    std::nth_element(best_.begin(), best_.begin() + static_cast<std::ptrdiff_t>(limit_), best_.end(), before);
    best_.resize(limit_);
  }

  std::size_t limit_;
  scratch_vector<candidate> best_;
};

/// Writes field::selected of a batch whose first row is row `first_row` of the step: 1 for chosen tokens, else 0. If
/// the batch has a selection already, tokens outside of it are not selected.
template <class T>
void mark(const token_choice& choice, const token_batch<T>& batch, std::int64_t first_row,
          const std::type_identity_t<token_field<T>>& selected) {
  const auto chosen = choice.chosen();
  mark_tokens<T>(batch, selected, field::none, [&](extent_t i, const live_row& row, std::span<double> keep) {
    const auto begins = [&](std::int64_t r) {
      return std::lower_bound(chosen.begin(), chosen.end(), r,
                              [](const token_choice::candidate& c, std::int64_t x) { return c.row < x; });
    };
    auto next = begins(first_row + i);
    const auto end = begins(first_row + i + 1);
    for (std::size_t k = 0; k < row.size() && next != end; ++k)
      if (row.position()[k] == next->token) keep[k] = 1, ++next;
  });
}

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
/// et al. 2025, "Beyond the 80/20 Rule"; TRL top_entropy_quantile). token_filter{surrogate} trains on them alone; all
/// tokens still count in the denominator.
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
