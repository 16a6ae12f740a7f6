// Evaluation summary per data source: accuracies with standard errors, and reasons for wrong answers.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rlcore/train/evaluation/validation_metrics.hpp"
#include "rlcore/verify/verdict.hpp"

RLCORE_BEGIN
namespace train {

/// One judged response.
struct judged_response {
  std::string source;
  std::uint64_t problem = 0;  ///< responses to one problem share it
  verify::verdict verdict;
  std::int64_t tokens = -1;  ///< -1: not known
  bool cut_off = false;      ///< ended by the length limit
};

/// Probability that at least one of k of n samples, drawn without replacement, is right when c of the n are: the
/// unbiased estimate of Chen et al. ("Evaluating Large Language Models Trained on Code", 2021).
double pass_at(std::int64_t n, std::int64_t c, std::int64_t k);

/// The numbers of one data source. Accuracies are means over problems.
struct source_summary {
  std::string source;
  std::size_t problems = 0, responses = 0;
  std::int64_t n = 0;                                 ///< largest number of responses to a problem
  double mean = 0, error = 0;                         ///< accuracy, and its standard error over the problems
  std::vector<std::pair<std::int64_t, double>> pass;  ///< pass@k for k = 1, 2, 4, ..., n
  double best = 0, majority = 0;                      ///< of n samples drawn with replacement (verl's best@n and maj@n)
  std::array<std::size_t, verify::reason_names.size()> reasons{};
  std::size_t cut_off = 0;
  double tokens = -1;  ///< mean length of a response
};

/// Collects responses; the order does not matter.
class evaluation_summary {
 public:
  /// Counts one response.
  void add(const judged_response& r);

  std::vector<source_summary> sources() const;

  /// verl's val-core/* and val-aux/* of the rewards.
  metrics named_metrics() const {
    metrics out;
    scores_.write(out);
    return out;
  }

 private:
  struct collected {
    std::string source;
    std::map<std::uint64_t, std::pair<std::int64_t, std::int64_t>> problems;  // right, all
    std::array<std::size_t, verify::reason_names.size()> reasons{};
    std::size_t cut_off = 0, counted = 0;
    double tokens = 0;
  };
  collected& find(const std::string& source) {
    for (collected& c : all_)
      if (c.source == source) return c;
    return all_.emplace_back(collected{.source = source, .problems = {}});
  }

  validation_scores scores_, correct_;
  std::vector<collected> all_;
};

/// The table that evaluate prints: numbers in percent, aligned. Empty columns are left out.
std::string summary_table(const std::vector<source_summary>& sources);

/// result.json: shares, not percent.
nlohmann::ordered_json summary_json(const evaluation_summary& summary);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE double pass_at(std::int64_t n, std::int64_t c, std::int64_t k) {
  if (n - c < k) return 1;
  double all_wrong = 1;
  for (std::int64_t i = 0; i < k; ++i) all_wrong *= static_cast<double>(n - c - i) / static_cast<double>(n - i);
  return 1 - all_wrong;
}

RLCORE_INLINE void evaluation_summary::add(const judged_response& r) {
  scores_.add(r.source, r.problem, r.verdict);
  correct_.add(r.source, r.problem, r.verdict.correct() ? 1.0 : 0.0, "acc", r.verdict.pred);
  collected& c = find(r.source);
  auto& [right, total] = c.problems[r.problem];
  right += r.verdict.correct();
  ++total;
  ++c.reasons[static_cast<std::size_t>(r.verdict.why)];
  c.cut_off += r.cut_off;
  if (r.tokens >= 0) c.tokens += static_cast<double>(r.tokens), ++c.counted;
}

RLCORE_INLINE std::vector<source_summary> evaluation_summary::sources() const {
  metrics named;
  correct_.write(named);
  std::vector<source_summary> out;
  for (const collected& c : all_) {
    source_summary s{
        .source = c.source, .problems = c.problems.size(), .pass = {}, .reasons = c.reasons, .cut_off = c.cut_off};
    double sum = 0, squares = 0;
    for (const auto& [problem, counts] : c.problems) {
      const double mean = static_cast<double>(counts.first) / static_cast<double>(counts.second);
      sum += mean;
      squares += mean * mean;
      s.n = std::max(s.n, counts.second);
      s.responses += static_cast<std::size_t>(counts.second);
    }
    const auto p = static_cast<double>(s.problems);
    s.mean = sum / p;
    s.error = s.problems > 1 ? std::sqrt(std::max(0.0, squares - sum * s.mean) / (p - 1) / p) : 0;
    for (std::int64_t k = 1;; k = std::min(2 * k, s.n)) {
      double total = 0;
      for (const auto& [problem, counts] : c.problems)
        total += pass_at(counts.second, counts.first, std::min(k, counts.second));
      s.pass.emplace_back(k, total / p);
      if (k == s.n) break;
    }
    const auto of = [&](const char* word) {
      const double x = named.get("val-core/" + s.source + "/acc/" + word + "@" + std::to_string(s.n) + "/mean");
      return s.n == 1 ? s.mean : x;
    };
    s.best = of("best");
    s.majority = of("maj");
    if (c.counted > 0) s.tokens = c.tokens / static_cast<double>(c.counted);
    out.push_back(std::move(s));
  }
  return out;
}

RLCORE_INLINE std::string summary_table(const std::vector<source_summary>& sources) {
  std::vector<std::vector<std::string>> rows{
      {"data source", "problems", "n", "mean@n", "+-", "maj@n", "best@n", "pass@n"}};
  bool several = false, cut = false, lengths = false;
  std::array<bool, verify::reason_names.size()> seen{};
  for (const source_summary& s : sources) {
    several = several || s.n > 1;
    cut = cut || s.cut_off > 0;
    lengths = lengths || s.tokens >= 0;
    for (std::size_t r = 2; r < seen.size(); ++r) seen[r] = seen[r] || s.reasons[r] > 0;
  }
  if (!several) rows[0].resize(5);
  for (std::size_t r = 2; r < seen.size(); ++r)
    if (seen[r]) rows[0].emplace_back(verify::reason_names[r]);
  if (cut) rows[0].emplace_back("cut off");
  if (lengths) rows[0].emplace_back("tokens");
  const auto percent = [](double x) { return std::isfinite(x) ? fmt::format("{:.2f}", 100 * x) : std::string("-"); };
  for (const source_summary& s : sources) {
    std::vector<std::string> row{s.source, std::to_string(s.problems), std::to_string(s.n), percent(s.mean),
                                 percent(s.error)};
    if (several)
      for (const double x : {s.majority, s.best, s.pass.back().second}) row.push_back(percent(x));
    for (std::size_t r = 2; r < seen.size(); ++r)
      if (seen[r]) row.push_back(percent(static_cast<double>(s.reasons[r]) / static_cast<double>(s.responses)));
    if (cut) row.push_back(percent(static_cast<double>(s.cut_off) / static_cast<double>(s.responses)));
    if (lengths) row.push_back(s.tokens >= 0 ? fmt::format("{:.1f}", s.tokens) : "-");
    rows.push_back(std::move(row));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::size_t width = 0;
      for (const auto& other : rows) width = std::max(width, other[i].size());
      line += i == 0 ? fmt::format("{:<{}}", row[i], width) : fmt::format("  {:>{}}", row[i], width);
    }
    out += line + "\n";
  }
  return out;
}

RLCORE_INLINE nlohmann::ordered_json summary_json(const evaluation_summary& summary) {
  nlohmann::ordered_json out{{"sources", nlohmann::ordered_json::object()},
                             {"metrics", nlohmann::ordered_json::object()}};
  for (const source_summary& s : summary.sources()) {
    nlohmann::ordered_json& j = out["sources"][s.source];
    const std::string n = "@" + std::to_string(s.n);
    j = {{"problems", s.problems}, {"responses", s.responses}, {"mean" + n, s.mean}, {"standard_error", s.error}};
    for (const auto& [k, x] : s.pass) j["pass@" + std::to_string(k)] = x;
    j["best" + n] = s.best;
    if (std::isfinite(s.majority)) j["maj" + n] = s.majority;
    for (std::size_t r = 0; r < s.reasons.size(); ++r)
      j["reasons"][std::string(verify::reason_names[r])] = s.reasons[r];
    j["cut_off"] = s.cut_off;
    if (s.tokens >= 0) j["mean_tokens"] = s.tokens;
  }
  const metrics named = summary.named_metrics();
  for (const auto& [name, x] : named) out["metrics"][name] = named.get(name);
  return out;
}

}  // namespace train
RLCORE_END
#endif
