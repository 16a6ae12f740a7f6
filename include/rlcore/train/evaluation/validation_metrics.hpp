// Validation scores per data source: mean@N, std@N, best@k, worst@k and maj@k, named as verl names them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rlcore/core/elementary.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/verify/verdict.hpp"

RLCORE_BEGIN
namespace train {

namespace detail {

/// Samples that gave the same answer.
struct vote_class {
  double count = 0, sum = 0, squares = 0;

  double mean() const noexcept { return sum / count; }
  double mean_square() const noexcept { return squares / count; }
};

std::vector<vote_class> vote_classes(std::span<const double> values, std::span<const std::int32_t> answers);

/// First and second moment of the vote's value, restricted to draws whose winner has exactly `most` votes. Sums
/// p_1^m_1/m_1! ... p_C^m_C/m_C! over all m with at most `most` votes each, `draws` in all, by the number of classes
/// that tie; each of t tied classes wins in 1/t of the orders.
std::pair<double, double> winner_with(std::span<const vote_class> classes, double samples, std::size_t draws,
                                      std::size_t most);

/// The same moments estimated by 1000 random draws.
std::pair<double, double> sampled_votes(std::span<const double> values, std::span<const std::int32_t> answers,
                                        std::size_t draws);

}  // namespace detail

/// Mean and standard deviation of the value of the most frequent answer among k draws with replacement. `answers[i]`
/// numbers the answer of sample i; among answers with equally many votes the one drawn first wins, and its value is
/// that of its first draw (verl's rule). Exact for up to 64 samples; beyond, 1000 draws (their seed is fixed).
std::pair<double, double> majority_of(std::span<const double> values, std::span<const std::int32_t> answers,
                                      std::int64_t k);

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

}  // namespace train

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train::detail {

RLCORE_INLINE std::vector<vote_class> vote_classes(std::span<const double> values,
                                                   std::span<const std::int32_t> answers) {
  std::vector<vote_class> classes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto c = static_cast<std::size_t>(answers[i]);
    if (c >= classes.size()) classes.resize(c + 1);
    ++classes[c].count;
    classes[c].sum += values[i];
    classes[c].squares += values[i] * values[i];
  }
  std::erase_if(classes, [](const vote_class& c) { return c.count == 0; });
  return classes;
}

RLCORE_INLINE std::pair<double, double> winner_with(std::span<const vote_class> classes, double samples,
                                                    std::size_t draws, std::size_t most) {
  struct state {
    double weight = 0, sum = 0, squares = 0;  // of the product, of it times the tied classes' mean (square)
  };
  const std::size_t ties = draws / most;
  std::vector<state> now((draws + 1) * (ties + 1)), next(now.size());
  const auto at = [&](std::vector<state>& s, std::size_t used, std::size_t t) -> state& {
    return s[used * (ties + 1) + t];
  };
  at(now, 0, 0).weight = 1;
  for (const vote_class& c : classes) {
    std::fill(next.begin(), next.end(), state{});
    const double p = c.count / samples;
    for (std::size_t used = 0; used <= draws; ++used)
      for (std::size_t t = 0; t <= ties; ++t) {
        const state& s = at(now, used, t);
        if (s.weight == 0) continue;
        double term = 1;  // p^m / m!
        for (std::size_t m = 0; m <= most && used + m <= draws; term *= p / static_cast<double>(++m)) {
          const bool tied = m == most;
          if (tied && t == ties) continue;
          state& to = at(next, used + m, t + tied);
          to.weight += s.weight * term;
          to.sum += (s.sum + (tied ? s.weight * c.mean() : 0)) * term;
          to.squares += (s.squares + (tied ? s.weight * c.mean_square() : 0)) * term;
        }
      }
    now.swap(next);
  }
  double sum = 0, squares = 0;
  for (std::size_t t = 1; t <= ties; ++t) {
    sum += at(now, draws, t).sum / static_cast<double>(t);
    squares += at(now, draws, t).squares / static_cast<double>(t);
  }
  return {sum, squares};
}

RLCORE_INLINE std::pair<double, double> sampled_votes(std::span<const double> values,
                                                      std::span<const std::int32_t> answers, std::size_t draws) {
  constexpr std::uint32_t rounds = 1000;
  const random_key key{42};
  std::vector<std::size_t> drawn(draws);
  std::vector<int> votes(static_cast<std::size_t>(*std::max_element(answers.begin(), answers.end())) + 1);
  double sum = 0, squares = 0;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    std::fill(votes.begin(), votes.end(), 0);
    for (std::size_t d = 0; d < draws; ++d) {
      drawn[d] = key.below(static_cast<std::uint32_t>(values.size()), round, static_cast<std::uint32_t>(d));
      ++votes[static_cast<std::size_t>(answers[drawn[d]])];
    }
    const int most = *std::max_element(votes.begin(), votes.end());
    const auto winner = std::find_if(
        drawn.begin(), drawn.end(), [&](std::size_t i) { return votes[static_cast<std::size_t>(answers[i])] == most; });
    sum += values[*winner];
    squares += values[*winner] * values[*winner];
  }
  return {sum / rounds, squares / rounds};
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE std::pair<double, double> majority_of(std::span<const double> values,
                                                    std::span<const std::int32_t> answers, std::int64_t k) {
  const auto draws = static_cast<std::size_t>(k);
  double sum = 0, squares = 0;
  if (values.size() > 64) {
    std::tie(sum, squares) = detail::sampled_votes(values, answers, draws);
  } else {
    const std::vector<detail::vote_class> classes = detail::vote_classes(values, answers);
    for (std::size_t most = 1; most <= draws; ++most) {
      const auto part = detail::winner_with(classes, static_cast<double>(values.size()), draws, most);
      sum += part.first;
      squares += part.second;
    }
    double orders = 1;
    for (std::size_t i = 2; i <= draws; ++i) orders *= static_cast<double>(i);
    sum *= orders;
    squares *= orders;
  }
  return {sum, std::sqrt(std::max(0.0, squares - sum * sum))};
}

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

}  // namespace train
RLCORE_END
#endif
