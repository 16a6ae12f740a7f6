// Validation scores per data source: mean@N, std@N, best@k and worst@k, named as verl names them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rlcore/trainer/metrics.hpp"

RLCORE_BEGIN
namespace trainer {

/// Mean and standard deviation of the largest of k draws with replacement from `sorted` (ascending): the exact values
/// of what a bootstrap estimates. P(largest <= x_i) = (i/N)^k.
inline std::pair<double, double> best_of(std::span<const double> sorted, std::int64_t k) {
  const auto n = static_cast<double>(sorted.size());
  double mean = 0, square = 0, below = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double up_to = std::pow(static_cast<double>(i + 1) / n, static_cast<double>(k));
    mean += sorted[i] * (up_to - below);
    square += sorted[i] * sorted[i] * (up_to - below);
    below = up_to;
  }
  return {mean, std::sqrt(std::max(0.0, square - mean * mean))};
}

/// The same for the smallest.
inline std::pair<double, double> worst_of(std::span<const double> sorted, std::int64_t k) {
  std::vector<double> mirrored(sorted.size());
  std::transform(sorted.rbegin(), sorted.rend(), mirrored.begin(), [](double x) { return -x; });
  const auto [mean, deviation] = best_of(mirrored, k);
  return {-mean, deviation};
}

/// Collects the scores of a validation and writes val-core/* and val-aux/*. Samples of one prompt form a group; every
/// statistic is taken per group, then averaged over the prompts of a data source.
class validation_scores {
 public:
  /// `field` is what was measured: "reward", or "acc" where the reward function reports an accuracy.
  void add(std::string_view source, std::uint64_t prompt, double score, std::string_view field = "reward") {
    group& g = group_of(fields_of(source, field), prompt);
    g.scores.push_back(score);
  }

  void write(metrics& out) const {
    for (const series& s : all_) {
      const bool core_field = s.field == "acc" || (s.field == "reward" && !has(s.source, "acc"));
      std::vector<std::pair<std::string, std::pair<double, std::int64_t>>> sums;  // statistic -> sum, prompts
      std::size_t most = 0;
      for (const group& g : s.groups) {
        most = std::max(most, g.scores.size());
        add_statistics(g.scores, sums);
      }
      const std::string largest = "@" + std::to_string(most);
      for (const auto& [name, sum] : sums) {
        const bool at_largest = name.ends_with(largest) || name.find(largest + "/") != std::string::npos;
        const bool core = core_field && at_largest && (name.starts_with("mean") || name.starts_with("best"));
        out.set((core ? "val-core/" : "val-aux/") + s.source + "/" + s.field + "/" + name,
                sum.first / static_cast<double>(sum.second));
      }
    }
  }

 private:
  struct group {
    std::vector<double> scores;
  };
  struct series {
    std::string source, field;
    std::vector<group> groups;                             // in the order of arrival
    std::unordered_map<std::uint64_t, std::size_t> index;  // prompt -> groups
  };

  series& fields_of(std::string_view source, std::string_view field) {
    for (series& s : all_)
      if (s.source == source && s.field == field) return s;
    return all_.emplace_back(series{std::string(source), std::string(field), {}, {}});
  }
  static group& group_of(series& s, std::uint64_t prompt) {
    const auto [at, fresh] = s.index.try_emplace(prompt, s.groups.size());
    return fresh ? s.groups.emplace_back(group{{}}) : s.groups[at->second];
  }
  bool has(const std::string& source, std::string_view field) const {
    return std::any_of(all_.begin(), all_.end(),
                       [&](const series& s) { return s.source == source && s.field == field; });
  }

  template <class Sums>
  static void add_statistics(const std::vector<double>& scores, Sums& sums) {
    const auto put = [&](const std::string& name, double x) {
      for (auto& [known, sum] : sums)
        if (known == name) {
          sum.first += x;
          ++sum.second;
          return;
        }
      sums.push_back({name, {x, 1}});
    };
    const auto n = std::ssize(scores);
    const std::string at = "@" + std::to_string(n);
    double mean = 0, variance = 0;
    for (const double x : scores) mean += x;
    mean /= static_cast<double>(n);
    put("mean" + at, mean);
    if (n == 1) return;
    for (const double x : scores) variance += (x - mean) * (x - mean);
    put("std" + at, std::sqrt(variance / static_cast<double>(n)));
    std::vector<double> sorted = scores;
    std::sort(sorted.begin(), sorted.end());
    for (std::int64_t k = 2;; k = std::min<std::int64_t>(2 * k, n)) {
      const std::int64_t size = std::min<std::int64_t>(k, n);
      const std::string of = "@" + std::to_string(size);
      const auto best = best_of(sorted, size), worst = worst_of(sorted, size);
      put("best" + of + "/mean", best.first);
      put("best" + of + "/std", best.second);
      put("worst" + of + "/mean", worst.first);
      put("worst" + of + "/std", worst.second);
      if (size == n) break;
    }
  }

  std::vector<series> all_;
};

}  // namespace trainer
RLCORE_END
