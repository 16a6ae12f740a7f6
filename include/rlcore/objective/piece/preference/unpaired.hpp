// Unpaired preference losses (links of single rows): KTO, BCO, APO-zero, AOT.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "rlcore/core/order.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/preference/link.hpp"
#include "rlcore/objective/piece/preference/pairwise.hpp"
#include "rlcore/simd/exact_sum.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// KTO's baseline: an estimate of KL(policy || reference), never negative. It has no default; take it from
/// mismatched_kl, or pass a number, e.g. kto_baseline(0). Throws std::invalid_argument for a negative number or NaN. A
/// number has no gradient: the baseline is detached by its type.
class kto_baseline {
 public:
  /// Not to be used: its static_assert message explains a missing baseline.
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
/// all rows of the step, micro-batches and ranks by +=; the mean is over rows, however they were split, and exact.
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

/// weight sigmoid(-z), z = s beta (u - kl), s = 1 for a desirable row (field::target 1) and -1 for an undesirable one
/// (0): KTO (Ethayarajh et al. 2024; TRL "kto"). A link of single rows for sum_of<log_ratio_to_reference>. The weights
/// of the two classes are to balance them: desirable_weight * desirable rows over undesirable_weight * undesirable rows
/// between 1 and 4/3. slope: -weight s beta sigmoid(z) sigmoid(-z). Monitors, means over all rows: share of desirable
/// rows, beta u of the desirable ones, beta u of the undesirable ones.
struct kto_link {
  static constexpr field reads = field::logp | field::target;
  static constexpr std::string_view name = "kto";
  static constexpr std::array<std::string_view, 3> monitors{"desirable", "reward_desirable", "reward_undesirable"};
  kto_baseline kl;
  positive beta = 0.1;
  double desirable_weight = 1.0, undesirable_weight = 1.0;

  constexpr void check_settings() const {
    check_setting("kto_link", "desirable_weight", desirable_weight, setting::coefficient);
    check_setting("kto_link", "undesirable_weight", undesirable_weight, setting::coefficient);
  }

  template <class Math, class V>
  RLCORE_FN term<V, 3> operator()(const token<V>& row) const noexcept {
    const V sign = label_sign<Math>(row.target);
    const V weight = Math::select(sign > V(0), V(desirable_weight), V(undesirable_weight));
    const V z = sign * (V(beta) * (row.logp - V(kl.value())));
    const V missed = Math::sigmoid(-z), desirable = Math::select(sign > V(0), V(1), V(0));
    const V reward = V(beta) * row.logp;
    return {weight * missed,
            V(-beta) * sign * (weight * missed * Math::sigmoid(z)),
            {desirable, desirable * reward, (V(1) - desirable) * reward}};
  }
};

/// The mean over all rows of sigmoid(-beta (c - k_r)) for chosen (even) and sigmoid(beta (r - k_c)) for rejected (odd)
/// rows, where k_c = max(0, mean c), k_r = max(0, mean r): the even-sampling KTO that OpenRLHF had until March 2026.
/// Unlike kto_link, its baselines come from the answers of the opposite side and are not constants, so every row gets a
/// share of the slopes of the opposite side. A link of all rows of a step. For reproducing old runs; kto_link is the
/// paper's. Throws std::invalid_argument for an odd number of rows.
struct coupled_kto_link {
  static constexpr field reads = field::none;
  static constexpr std::string_view name = "coupled_kto";
  positive beta = 0.1;

  double operator()(std::span<const token<double>> rows, std::span<double> slope) const {
    detail::check_pairs(rows.size(), slope.size());
    const auto count = static_cast<double>(rows.size());
    double mean[2] = {0, 0}, pull[2] = {0, 0}, total = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) mean[i % 2] += rows[i].logp / (count / 2);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double sign = i % 2 == 0 ? 1.0 : -1.0;
      const double baseline = mean[1 - i % 2] < 0 ? 0.0 : mean[1 - i % 2];
      const double z = sign * beta * (rows[i].logp - baseline);
      const double missed = exact_math::sigmoid(-z);
      total += missed / count;
      slope[i] = -sign * beta * missed * exact_math::sigmoid(z) / count;
      pull[1 - i % 2] -= slope[i];  // by the baseline, which is the opposite side's mean
    }
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (!(mean[i % 2] < 0)) slope[i] += pull[i % 2] / (count / 2);
    return total;
  }
};

/// softplus(-s (beta u - shift)), s = 1 for a desirable row (field::target 1) and -1 for an undesirable one (0): BCO
/// (Jung et al. 2024). A link of single rows for sum_of<log_ratio_to_reference>. `shift` is the running mean of all
/// rewards beta u, a constant, and has no default: see running_mean. slope: -s beta sigmoid(-s (beta u - shift)).
/// weighted{bco_link{...}} with udm_weight in field::weight matches the prompts of the two classes.
struct bco_link {
  static constexpr field reads = field::logp | field::target;
  static constexpr std::string_view name = "bco";
  static constexpr auto monitors = kto_link::monitors;
  double shift;
  positive beta;

  constexpr void check_settings() const { check_setting("bco_link", "shift", shift, setting::finite); }

  /// The running mean of the rewards and the scale of the log-ratio.
  constexpr explicit bco_link(double shift_, positive beta_ = 0.1) noexcept : shift(shift_), beta(beta_) {}

  template <class Math, class V>
  RLCORE_FN term<V, 3> operator()(const token<V>& row) const noexcept {
    const V sign = label_sign<Math>(row.target), reward = V(beta) * row.logp;
    const V z = sign * (reward - V(shift)), desirable = Math::select(sign > V(0), V(1), V(0));
    return {Math::softplus(-z),
            V(-beta) * sign * Math::sigmoid(-z),
            {desirable, desirable * reward, (V(1) - desirable) * reward}};
  }
};

/// What an undesirable row weighs if a classifier gives its prompt the probability p of being a desirable row's: the
/// odds p / (1 - p + 1e-8), clamped to [lowest, highest]. Desirable rows weigh 1. The defaults are TRL's.
inline double udm_weight(double p, double lowest = 0.5, double highest = 10.0) noexcept {
  return detail::between(p / (1 - p + 1e-8), lowest, highest);
}

/// Mean over all rows of all steps. Update once per optimizer step with the rewards of all its rows: the result then
/// depends neither on their order nor on micro-batches (TRL updates per micro-batch, so its loss depends on how the
/// step is cut). Both members are the whole state: save and restore them.
struct running_mean {
  double mean = 0;
  std::int64_t count = 0;

  /// Throws std::invalid_argument for a reward that is not finite; the state is then as it was.
  template <class Rewards>
  void update(const Rewards& rewards) {
    exact_sum sum;
    for (std::size_t i = 0; i < rewards.size(); ++i) {
      if (!std::isfinite(rewards[i]))
        throw std::invalid_argument("rlcore: reward " + std::to_string(i) + " is not finite");
      sum.add(static_cast<double>(rewards[i]));
    }
    const auto rows = static_cast<std::int64_t>(rewards.size());
    if (rows == 0) return;
    const double share = static_cast<double>(rows) / static_cast<double>(count + rows);
    mean += (sum.value() / static_cast<double>(rows) - mean) * share;
    count += rows;
  }
};

/// sigmoid(-beta u) for a desirable row (field::target 1), sigmoid(beta u) for an undesirable one (0): APO-zero
/// (D'Oosterlinck et al. 2024) on single rows; TRL's KTO "apo_zero_unpaired". It is kto_link with the baseline 0.
struct apo_zero_unpaired_link {
  static constexpr field reads = kto_link::reads;
  static constexpr std::string_view name = "apo_zero_unpaired";
  static constexpr auto monitors = kto_link::monitors;
  positive beta = 0.1;
  double desirable_weight = 1.0, undesirable_weight = 1.0;

  constexpr void check_settings() const {
    check_setting("apo_zero_unpaired_link", "desirable_weight", desirable_weight, setting::coefficient);
    check_setting("apo_zero_unpaired_link", "undesirable_weight", undesirable_weight, setting::coefficient);
  }

  template <class Math, class V>
  RLCORE_FN term<V, 3> operator()(const token<V>& row) const noexcept {
    return kto_link{.kl = kto_baseline(0),
                    .beta = beta,
                    .desirable_weight = desirable_weight,
                    .undesirable_weight = undesirable_weight}
        .template operator()<Math, V>(row);
  }
};

/// The mean over k of the logistic loss (with smoothing) of beta (c_k - r_k): c, r the sorted scores of chosen (even)
/// and rejected (odd) rows (AOT, Melnyk et al. 2024; TRL "aot_unpaired"). A link of all rows of a step on
/// sum_of<log_ratio_to_reference>. The chosen row and the rejected row of rank k get opposite slopes. Equal scores keep
/// the order of their rows. Throws std::invalid_argument for an odd number of rows.
struct aot_unpaired_link {
  static constexpr field reads = field::none;
  static constexpr std::string_view name = "aot_unpaired";
  positive beta = 0.1;
  double smoothing = 0.0;

  constexpr void check_settings() const {
    check_setting("aot_unpaired_link", "smoothing", smoothing, setting::below_1);
  }

  double operator()(std::span<const token<double>> rows, std::span<double> slope) const {
    detail::check_pairs(rows.size(), slope.size());
    const std::size_t pairs = rows.size() / 2;
    scratch_vector<double> chosen(pairs), rejected(pairs);
    for (std::size_t k = 0; k < pairs; ++k) chosen[k] = rows[2 * k].logp, rejected[k] = rows[2 * k + 1].logp;
    const auto of_chosen = detail::ascending(chosen), of_rejected = detail::ascending(rejected);
    double total = 0;
    for (std::size_t rank = 0; rank < pairs; ++rank) {
      const std::size_t c = of_chosen[rank], r = of_rejected[rank];
      const auto loss = smoothed_logistic<exact_math>(beta * (chosen[c] - rejected[r]), smoothing);
      total += loss.value / static_cast<double>(pairs);
      slope[2 * c] = beta * loss.slope / static_cast<double>(pairs);
      slope[2 * r + 1] = -slope[2 * c];
    }
    return total;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
