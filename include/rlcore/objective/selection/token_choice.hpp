// The best few tokens of a step, found part by part.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/selection/mark_tokens.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Keeps the `limit` tokens of highest priority among all that are offered; ties go to the earlier row, then to the
/// earlier token. Rows are numbered over the whole step, so neither the order of offers nor the split into
/// micro-batches and ranks is seen in the result. Join with +=.
class token_choice {
 public:
  /// One token of the step and what it is ranked by.
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
  /// Joins what another part has kept; the limit stays this one's.
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

RLCORE_ALGORITHM_END
RLCORE_END
