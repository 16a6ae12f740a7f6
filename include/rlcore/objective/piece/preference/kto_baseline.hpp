// The reference point of KTO: how far the policy is from the reference on completions of other prompts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "rlcore/simd/exact_sum.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// The constant that KTO compares with: an estimate of KL(policy || reference), never negative. There is none by
/// default; take it from mismatched_kl, or say what it is, e.g. kto_baseline(0). Throws std::invalid_argument for a
/// negative number or NaN. A number has no gradient: the baseline is detached by its type.
class kto_baseline {
 public:
  /// Not to be used: says what is missing where a baseline was left out.
  template <class Missing = void>
  constexpr kto_baseline() : kl_(0) {
    static_assert(
        !std::is_void_v<Missing>,
        "rlcore: KTO needs its baseline, e.g. kto_link{.kl = kto_kl_baseline(logp, ref_logp)} from mismatched "
        "completions; without one it is apo_zero_unpaired_link{}");
  }
  /// An estimate of the KL divergence. Throws std::invalid_argument unless it is 0 or more.
  constexpr explicit kto_baseline(double kl) : kl_(kl) {
    if (!(kl >= 0)) throw std::invalid_argument("rlcore: the baseline of KTO is a KL divergence, 0 or more");
  }
  constexpr double value() const noexcept { return kl_; }

 private:
  double kl_;
};

/// The row whose completion is put after row i's prompt: the one before, the first row takes the last one's (TRL).
/// Throws std::invalid_argument for fewer than two rows: a completion would be paired with its own prompt and the
/// baseline would be the reward itself.
constexpr std::size_t mismatched_row(std::size_t i, std::size_t rows) {
  if (rows < 2 || i >= rows)
    throw std::invalid_argument("rlcore: a mismatched completion needs at least two rows and an index among them");
  return (i + rows - 1) % rows;
}

/// max(0, mean over rows of (sum of logp - sum of ref_logp)) over mismatched completions (Ethayarajh et al. 2024). Add
/// all rows of the step, micro-batches and ranks by +=; the mean is over rows, whatever they were cut into, and exact.
class mismatched_kl {
 public:
  /// One mismatched completion: its summed log-probs under the policy and under the reference.
  void add(double logp, double ref_logp) noexcept {
    sum_.add(logp - ref_logp);
    ++rows_;
  }
  /// Joins the rows of another part of the step.
  mismatched_kl& operator+=(const mismatched_kl& other) noexcept {
    sum_ += other.sum_;
    rows_ += other.rows_;
    return *this;
  }
  std::int64_t rows() const noexcept { return rows_; }

  /// Throws std::invalid_argument for fewer than two rows, or if a log-prob was not a number.
  kto_baseline baseline() const {
    if (rows_ < 2)
      throw std::invalid_argument("rlcore: the baseline of KTO needs at least two mismatched completions, got " +
                                  std::to_string(rows_));
    const double mean = sum_.value() / static_cast<double>(rows_);
    return kto_baseline(mean < 0 ? 0.0 : mean);
  }

 private:
  exact_sum sum_;
  std::int64_t rows_ = 0;
};

/// The same for all rows of a step at once; logp[i], ref_logp[i] are sums over mismatched completion i. Throws
/// std::invalid_argument if sizes differ.
template <class Logp, class RefLogp>
kto_baseline kto_kl_baseline(const Logp& logp, const RefLogp& ref_logp) {
  if (logp.size() != ref_logp.size())
    throw std::invalid_argument("rlcore: logp is [" + std::to_string(logp.size()) + "], ref_logp is [" +
                                std::to_string(ref_logp.size()) + "]");
  mismatched_kl kl;
  for (std::size_t i = 0; i < logp.size(); ++i) kl.add(static_cast<double>(logp[i]), static_cast<double>(ref_logp[i]));
  return kl.baseline();
}

RLCORE_ALGORITHM_END
RLCORE_END
