// Validation scores per data source: mean@N, std@N, best@k, worst@k and maj@k, named as verl names them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rlcore/core/elementary.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/trainer/evaluation/majority_vote.hpp"
#include "rlcore/verify/verdict.hpp"

RLCORE_BEGIN
namespace trainer {

/// Mean and standard deviation of the largest of k draws with replacement from `sorted` (ascending): the exact values
/// of what a bootstrap estimates. P(largest <= x_i) = (i/N)^k.
std::pair<double, double> best_of(std::span<const double> sorted, std::int64_t k);

/// The same for the smallest.
std::pair<double, double> worst_of(std::span<const double> sorted, std::int64_t k);

/// Collects the scores of a validation and writes val-core/* and val-aux/*. Samples of one prompt form a group; every
/// statistic is taken per group, then averaged over the prompts of a data source.
class validation_scores {
 public:
  /// `field` is the measured quantity: "reward", or "acc" if the reward function reports an accuracy. Where a source
  /// has any answers, samples without one vote together for "no answer".
  void add(std::string_view source, std::uint64_t prompt, double score, std::string_view field = "reward",
           const std::optional<std::string>& answer = std::nullopt);
  /// The reward, the accuracy where the rule has one, and the vote of a response.
  void add(std::string_view source, std::uint64_t prompt, const verify::verdict& v) {
    add(source, prompt, v.score, "reward", v.pred);
    if (v.acc) add(source, prompt, *v.acc ? 1.0 : 0.0, "acc", v.pred);
  }

  /// Sets val-core/<source>/<field>/<name>, and val-aux/... for verl's auxiliary metrics: means over prompts. Core are
  /// mean@N, best@N and maj@N, N the most samples of a prompt, of acc, or of the reward of a source without acc.
  void write(metrics& out) const;

 private:
  struct group {
    std::vector<double> scores;
    std::vector<std::int32_t> votes;                        // number of the answer of each
    std::unordered_map<std::string, std::int64_t> answers;  // answer -> number
  };
  struct series {
    std::string source, field;
    bool has_answers = false;
    std::vector<group> groups;                             // in the order of arrival
    std::unordered_map<std::uint64_t, std::size_t> index;  // prompt -> groups
  };
  using statistics = std::vector<std::pair<std::string, std::pair<double, std::int64_t>>>;  // name -> sum, prompts

  series& fields_of(std::string_view source, std::string_view field) {
    for (series& s : all_)
      if (s.source == source && s.field == field) return s;
    return all_.emplace_back(series{std::string(source), std::string(field), false, {}, {}});
  }
  static group& group_of(series& s, std::uint64_t prompt) {
    const auto [at, fresh] = s.index.try_emplace(prompt, s.groups.size());
    return fresh ? s.groups.emplace_back() : s.groups[at->second];
  }
  bool has(const std::string& source, std::string_view field) const {
    return std::any_of(all_.begin(), all_.end(),
                       [&](const series& s) { return s.source == source && s.field == field; });
  }

  static void put(statistics& sums, const std::string& name, double x);
  static void add_statistics(const group& g, bool has_answers, statistics& sums);

  std::vector<series> all_;
};

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINER)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE std::pair<double, double> best_of(std::span<const double> sorted, std::int64_t k) {
  const auto n = static_cast<double>(sorted.size());
  double mean = 0, square = 0, below = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double up_to = elementary::pow(static_cast<double>(i + 1) / n, static_cast<double>(k));
    mean += sorted[i] * (up_to - below);
    square += sorted[i] * sorted[i] * (up_to - below);
    below = up_to;
  }
  return {mean, std::sqrt(std::max(0.0, square - mean * mean))};
}

RLCORE_INLINE std::pair<double, double> worst_of(std::span<const double> sorted, std::int64_t k) {
  std::vector<double> mirrored(sorted.size());
  std::transform(sorted.rbegin(), sorted.rend(), mirrored.begin(), [](double x) { return -x; });
  const auto [mean, deviation] = best_of(mirrored, k);
  return {-mean, deviation};
}

RLCORE_INLINE void validation_scores::add(std::string_view source, std::uint64_t prompt, double score,
                                          std::string_view field, const std::optional<std::string>& answer) {
  series& s = fields_of(source, field);
  group& g = group_of(s, prompt);
  g.scores.push_back(score);
  s.has_answers = s.has_answers || answer.has_value();
  const auto known = g.answers.try_emplace(answer.value_or(std::string("\0", 1)), std::ssize(g.answers)).first;
  g.votes.push_back(static_cast<std::int32_t>(known->second));
}

RLCORE_INLINE void validation_scores::write(metrics& out) const {
  for (const series& s : all_) {
    const bool core_field = s.field == "acc" || (s.field == "reward" && !has(s.source, "acc"));
    statistics sums;
    std::size_t most = 0;
    for (const group& g : s.groups) {
      most = std::max(most, g.scores.size());
      add_statistics(g, s.has_answers, sums);
    }
    const std::string largest = "@" + std::to_string(most);
    for (const auto& [name, sum] : sums) {
      const bool at_largest = name.ends_with(largest) || name.find(largest + "/") != std::string::npos;
      const bool core =
          core_field && at_largest && (name.starts_with("mean") || name.starts_with("best") || name.starts_with("maj"));
      out.set((core ? "val-core/" : "val-aux/") + s.source + "/" + s.field + "/" + name,
              sum.first / static_cast<double>(sum.second));
    }
  }
}

RLCORE_INLINE void validation_scores::put(statistics& sums, const std::string& name, double x) {
  for (auto& [known, sum] : sums)
    if (known == name) {
      sum.first += x;
      ++sum.second;
      return;
    }
  sums.push_back({name, {x, 1}});
}

RLCORE_INLINE void validation_scores::add_statistics(const group& g, bool has_answers, statistics& sums) {
  const auto n = std::ssize(g.scores);
  const std::string at = "@" + std::to_string(n);
  double mean = 0, variance = 0;
  for (const double x : g.scores) mean += x;
  mean /= static_cast<double>(n);
  put(sums, "mean" + at, mean);
  if (n == 1) return;
  for (const double x : g.scores) variance += (x - mean) * (x - mean);
  put(sums, "std" + at, std::sqrt(variance / static_cast<double>(n)));
  std::vector<double> sorted = g.scores;
  std::sort(sorted.begin(), sorted.end());
  for (std::int64_t k = 2;; k = std::min<std::int64_t>(2 * k, n)) {
    const std::int64_t size = std::min<std::int64_t>(k, n);
    const auto put_pair = [&](const char* word, const std::pair<double, double>& x) {
      const std::string name = word + ("@" + std::to_string(size));
      put(sums, name + "/mean", x.first);
      put(sums, name + "/std", x.second);
    };
    put_pair("best", best_of(sorted, size));
    put_pair("worst", worst_of(sorted, size));
    if (has_answers) put_pair("maj", majority_of(g.scores, g.votes, size));
    if (size == n) break;
  }
}

}  // namespace trainer
RLCORE_END
#endif
