// Applies a rollout correction: weights, the remaining mask and the counts of that mask.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/correction/reports.hpp"
#include "rlcore/objective/correction/rollout_correction.hpp"
#include "rlcore/objective/loop/live_rows.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Statistics of one gate.
struct gate_report {
  std::string_view level, statistic;
  std::int64_t tokens = 0, sequences = 0;
  std::int64_t rejected = 0;  ///< tokens it rejected
  std::int64_t touched = 0;   ///< sequences in which it rejected any token
  exact_sum total;            ///< of the statistic over tokens
  double smallest = std::numeric_limits<double>::infinity(), largest = -smallest;

  double mean() const noexcept { return tokens > 0 ? total.value() / static_cast<double>(tokens) : 0.0; }
  double rejected_share() const noexcept { return share(rejected, tokens); }
  double touched_share() const noexcept { return share(touched, sequences); }

  /// Joins the statistics of the same gate in another part.
  gate_report& operator+=(const gate_report& other) noexcept {
    if (!other.level.empty()) level = other.level, statistic = other.statistic;
    tokens += other.tokens, sequences += other.sequences, rejected += other.rejected, touched += other.touched;
    total += other.total;
    smallest = std::min(smallest, other.smallest), largest = std::max(largest, other.largest);
    return *this;
  }

 private:
  static double share(std::int64_t part, std::int64_t whole) noexcept {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
  }
};

/// Reports of micro-batches and ranks are joined with += in any order. All of it is measured before rejection.
template <std::size_t Gates>
struct correction_report {
  off_policy_report policy;
  weight_report weight;
  std::array<gate_report, Gates> gate;
  std::int64_t rejected = 0;  ///< tokens that any gate rejected
  std::int64_t touched = 0;   ///< sequences that lost any token

  /// Joins the report of another part.
  correction_report& operator+=(const correction_report& other) noexcept {
    policy += other.policy;
    weight += other.weight;
    for (std::size_t g = 0; g < Gates; ++g) gate[g] += other.gate[g];
    rejected += other.rejected, touched += other.touched;
    return *this;
  }
};

/// Memory for the results; either may be absent if the correction has no such part. The mask may be the batch's own.
template <class T>
struct correction_outputs {
  token_field<T> weight{};
  mask_output mask{};
};

/// The batch to train on: `batch` has the new weight and mask, `counts` counts that very mask. Join the counts of all
/// parts of the step with += and hand them to evaluate; mask and denominator always agree.
template <class T, std::size_t Gates>
struct corrected_batch {
  token_batch<T> batch;
  global_counts counts;
  correction_report<Gates> report;
};

namespace correction {

/// Weighs and rejects the tokens of a batch, row by row: the work that correct() distributes.
template <class Rule, class T>
class row_corrector {
 public:
  static constexpr std::size_t gates = std::tuple_size_v<decltype(Rule::reject_unless)>;
  static constexpr bool weighs = !std::is_same_v<std::remove_cvref_t<decltype(std::declval<Rule>().weight)>, no_weight>;
  static constexpr field train = Rule::train_policy::train;

  /// Throws std::invalid_argument if a field that is read is missing, shapes differ, an output is missing or has
  /// nothing to be written to it, or the weight would be applied on top of another ratio.
  row_corrector(const Rule& rule, const token_batch<T>& batch, const correction_outputs<T>& out)
      : rule_(rule), rows_(batch, train | field::rollout_logp, "the rollout correction"), mask_(out.mask) {
    if (weighs != out.weight.present())
      throw std::invalid_argument(weighs ? "rlcore: the rollout correction writes weights, but there is nowhere to "
                                           "write them; set correction_outputs::weight"
                                         : "rlcore: correction_outputs::weight is set, but this rollout correction has "
                                           "no weight; a loss weighted by what it held before is not meant");
    if (gates > 0 && !mask_.present())
      throw std::invalid_argument(
          "rlcore: the rollout correction rejects tokens, but there is nowhere to write the mask that remains; set "
          "correction_outputs::mask (the batch's own mask will do)");
    if (weighs && train == field::logp && batch.old_logp.present())
      throw std::invalid_argument(
          "rlcore: the weight of logp over rollout_logp and a ratio of logp over old_logp would correct twice; leave "
          "token_batch::old_logp out (bypass), or correct old_logp (decoupled)");
    if constexpr (weighs) {
      rule.weight.check();
      weight_ = rows_.target("weight", out.weight);
    }
    if (mask_.present()) rows_.check(mask_);
  }

  extent_t size() const noexcept { return rows_.size(); }

  /// One chunk of rows with its own storage.
  void run(extent_t begin, extent_t end, correction_report<gates>& report, global_counts& counts) const {
    live_row row;
    storage s;
    for (extent_t i = begin; i < end; ++i) {
      rows_.read(i, row);
      one_row(i, row, s, report, counts);
    }
  }

 private:
  struct storage {
    scratch_vector<double> log_ratio, rollout, raw, weight, statistic;
    scratch_vector<unsigned char> keep;
  };

  void one_row(extent_t i, const live_row& row, storage& s, correction_report<gates>& report,
               global_counts& counts) const {
    const std::size_t n = row.size();
    const auto policy = row[train];
    s.log_ratio.resize(n), s.raw.resize(n), s.weight.resize(n), s.statistic.resize(n);
    s.rollout.assign(row[field::rollout_logp].begin(), row[field::rollout_logp].end());
    s.keep.assign(n, 1);
    report.policy.add_row({row.position(), policy, s.rollout, {}}, rule_.unscored_is_equal);
    for (std::size_t k = 0; k < n; ++k) {
      if (rule_.unscored_is_equal && s.rollout[k] != s.rollout[k]) s.rollout[k] = policy[k];
      s.log_ratio[k] = policy[k] - s.rollout[k];
    }
    const log_ratio_row seen{row.position(), policy, s.rollout, s.log_ratio};
    std::size_t g = 0;
    std::apply([&](const auto&... gate) { (close(gate, seen, s, report.gate[g++]), ...); }, rule_.reject_unless);
    std::int64_t kept = 0;
    for (const unsigned char k : s.keep) kept += k;
    if constexpr (weighs) {
      rule_.weight(seen, s.raw, s.weight);
      report.weight.per_sequence = rule_.weight.per_sequence;
      report.weight.add_row(s.raw, s.weight, rule_.weight.low(), rule_.weight.high());
      for (std::size_t k = 0; k < n; ++k)
        if (!s.keep[k]) s.weight[k] = 0;
      rows_.write(weight_, i, row, s.weight);
    }
    if (mask_.present()) rows_.write(mask_, i, row, s.keep);
    report.rejected += static_cast<std::int64_t>(n) - kept;
    report.touched += kept < static_cast<std::int64_t>(n);
    counts.add_row(kept);
  }

  template <class Gate>
  void close(const Gate& gate, const log_ratio_row& row, storage& s, gate_report& report) const {
    gate(row, s.statistic);
    double total = 0;
    std::int64_t rejected = 0;
    for (std::size_t k = 0; k < s.statistic.size(); ++k) {
      const double x = s.statistic[k];
      const bool keep = gate.keeps(x);
      s.keep[k] = s.keep[k] && keep;
      total += x, rejected += !keep;
      report.smallest = std::min(report.smallest, x), report.largest = std::max(report.largest, x);
    }
    report.level = Gate::level_name, report.statistic = Gate::statistic_name;
    report.tokens += static_cast<std::int64_t>(s.statistic.size()), report.sequences += !s.statistic.empty();
    report.rejected += rejected, report.touched += rejected > 0;
    report.total.add(total);
  }

  const Rule& rule_;
  live_rows<T> rows_;
  mask_output mask_;
  detail::row_source<T> weight_;
};

}  // namespace correction

/// Weighs and rejects the tokens of `batch` by `rule`. Writes the weights (0 where the token is masked or rejected) and
/// the mask that remains, in double per row and in a fixed order: any split into micro-batches and any executor give
/// the same bits. Throws std::invalid_argument if a field that is read is missing, shapes differ, an output that the
/// rule writes is absent, or the weight would be applied on top of another ratio.
template <executor Executor, class Rule, class T>
auto correct(const Executor& exec, const Rule& rule, const token_batch<T>& batch,
             const std::type_identity_t<correction_outputs<T>>& out) {
  using corrector = correction::row_corrector<Rule, T>;
  const corrector rows(rule, batch, out);
  const std::size_t chunks = std::min(static_cast<std::size_t>(rows.size()), 4 * exec.concurrency());
  scratch_vector<correction_report<corrector::gates>> reports(chunks);
  scratch_vector<global_counts> counts(chunks);
  exec.for_each(chunks, [&](std::size_t c) {
    const auto bound = [&](std::size_t k) {
      return static_cast<extent_t>(static_cast<std::size_t>(rows.size()) * k / chunks);
    };
    rows.run(bound(c), bound(c + 1), reports[c], counts[c]);
  });
  corrected_batch<T, corrector::gates> result{batch, {}, {}};
  for (std::size_t c = 0; c < chunks; ++c) result.report += reports[c], result.counts += counts[c];
  if (out.weight.present()) {
    result.batch.weight = token_field<const T>{};
    result.batch.weight.data = out.weight.data;
    result.batch.weight.form = static_cast<typename token_field<const T>::kind>(out.weight.form);
    result.batch.weight.shape = out.weight.shape;
    result.batch.weight.stride = out.weight.stride;
  }
  if (out.mask.present()) result.batch.mask = out.mask.seen;
  return result;
}

/// Self-normalised weights: divides what correct() wrote by the mean weight of the step (verl's batch normalisation).
/// `joined` is the report of all micro-batches and ranks. A mean of 1e-8 or less leaves the weights alone.
template <class T>
void self_normalize(const token_field<T>& weight, const weight_report& joined) {
  const double mean = joined.normalizer();
  if (!(mean > 1e-8)) return;
  for (extent_t i = 0; i < weight.shape[0]; ++i)
    for (extent_t t = 0; t < weight.shape[1]; ++t) {
      T& w = weight.data[i * weight.stride[0] + t * weight.stride[1]];
      w = static_cast<T>(static_cast<double>(w) / mean);
    }
}

RLCORE_ALGORITHM_END
RLCORE_END
