// Comparison of two runs: the mean error between their curves, and their speed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/telemetry/metrics.hpp"

RLCORE_BEGIN
namespace trainer {

/// The distance of run A from the reference B in one metric, over the steps that both logged.
struct curve_distance {
  std::string key;
  std::int64_t steps = 0;
  double mean_error = 0;  ///< (1/N) sum |a - b|: absolute, published as a percentage
  double relative = 0;    ///< mean of |a - b| / |b| where b is not 0
  double largest = 0;     ///< max |a - b|
  std::int64_t largest_step = 0;
  std::optional<std::int64_t> first_above;  ///< first step with |a - b|, or with --relative |a - b| / |b|, above it
  double threshold = 0;
  bool is_relative = false;         ///< whether the threshold applies to the relative error
  std::int64_t zero_reference = 0;  ///< steps with b = 0 and a != 0: no relative error
  std::int64_t not_finite = 0;      ///< steps left out because both are not finite
  std::int64_t one_not_finite = 0;  ///< steps where only one is not finite
  std::vector<double> at, a, b;     ///< the steps and both curves

  bool needs_signal = false;  ///< requested by name: two curves of zeros prove nothing

  double gated() const noexcept { return is_relative ? relative : mean_error; }
  /// Whether both curves are 0 in every step.
  bool silent() const noexcept {
    const auto zero = [](double x) { return x == 0; };
    return steps > 0 && std::all_of(a.begin(), a.end(), zero) && std::all_of(b.begin(), b.end(), zero);
  }
  bool above() const noexcept {
    return one_not_finite > 0 || (is_relative && zero_reference > 0) || !(gated() <= threshold);
  }
  bool within() const noexcept { return !above() && !(needs_signal && silent()); }
  const char* result() const noexcept { return above() ? "above" : silent() ? "no signal" : "within"; }
};

/// The thresholds of the published tables: 4 % for rewards and scores, 2 % for losses and everything else.
inline double default_threshold(std::string_view key) {
  for (const char* part : {"reward", "score", "val-core/", "val-aux/"})
    if (key.find(part) != key.npos && key.find("loss") == key.npos) return 0.04;
  return 0.02;
}

/// All metric names in order of first appearance.
std::vector<std::string> names_of(std::span<const metric_row> rows);

/// `key` over the first `steps` (0: all) of the common steps of A and the reference B, one row per step each. A
/// threshold below 0 is the default one. Throws config_error: no such key (did you mean), no common step.
curve_distance compare_curve(std::span<const metric_row> a, std::span<const metric_row> b, std::string_view key,
                             std::int64_t steps = 0, double threshold = -1, bool is_relative = false);

/// Speed of A and B; NaN if a run does not log it.
struct speed_ratio {
  double throughput_a = 0, throughput_b = 0;  ///< mean perf/throughput of the first steps that logged it
  std::int64_t steps_a = 0, steps_b = 0;      ///< the number of those steps
  double seconds_a = 0, seconds_b = 0;        ///< sum of timing_s/step (or train/time(s)) over the common steps
  double throughput() const noexcept { return throughput_a / throughput_b; }  ///< > 1: A is faster
  double time() const noexcept { return seconds_b / seconds_a; }              ///< > 1: A is faster
};

/// Compares throughput over the first `steps` rows of each run that logged it, and time over the steps that both have.
speed_ratio compare_speed(std::span<const metric_row> a, std::span<const metric_row> b, std::int64_t steps = 4);

/// Expands `asked`: itself, or with a trailing '*' every metric of both runs with that prefix; "*" alone leaves out
/// wall times, speeds and memory. Throws config_error if nothing matches.
std::vector<std::string> expand_key(const std::string& asked, std::span<const metric_row> a,
                                    std::span<const metric_row> b);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE std::vector<std::string> names_of(std::span<const metric_row> rows) {
  std::vector<std::string> names;
  for (const metric_row& row : rows)
    for (const auto& [name, x] : row.values)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

RLCORE_INLINE curve_distance compare_curve(std::span<const metric_row> a, std::span<const metric_row> b,
                                           std::string_view key, std::int64_t steps, double threshold,
                                           bool is_relative) {
  const auto known = [&](std::span<const metric_row> rows) {
    return std::any_of(rows.begin(), rows.end(), [&](const metric_row& r) { return r.values.contains(key); });
  };
  const bool in_a = known(a), in_b = known(b);
  if (!in_a || !in_b) {
    std::vector<std::string> names = in_a ? std::vector<std::string>() : names_of(a);
    for (std::string& name : in_b ? std::vector<std::string>() : names_of(b))
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
    std::string hint = did_you_mean(key, names), like;
    const std::string_view last = key.substr(key.rfind('/') == key.npos ? 0 : key.rfind('/') + 1);
    for (const std::string& name : names)
      if (hint.empty() && like.size() < 100 && name.find(last) != name.npos) like += (like.empty() ? "" : ", ") + name;
    throw config_error("--key " + std::string(key) + ": " +
                       (in_a   ? "B has no such metric"
                        : in_b ? "A has no such metric"
                               : "neither run has such a metric") +
                       hint + (like.empty() ? "" : " (there are " + like + ")"));
  }
  curve_distance out;
  out.key = std::string(key), out.is_relative = is_relative;
  out.threshold = threshold < 0 ? default_threshold(key) : threshold;
  std::int64_t relative_steps = 0, shared = 0;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    if (i->step != j->step) {
      ++(i->step < j->step ? i : j);
      continue;
    }
    const metric_row &row = *i++, &reference = *j++;
    if (!row.values.contains(key) || !reference.values.contains(key)) continue;
    if (steps > 0 && shared == steps) break;
    ++shared;
    const double x = row.values.get(key), y = reference.values.get(key), difference = std::abs(x - y);
    out.at.push_back(static_cast<double>(row.step)), out.a.push_back(x), out.b.push_back(y);
    if (!std::isfinite(x) || !std::isfinite(y)) {
      const bool both = !std::isfinite(x) && !std::isfinite(y);
      ++(both ? out.not_finite : out.one_not_finite);
      if (!both && !out.first_above) out.first_above = row.step;
      continue;
    }
    out.mean_error += difference, ++out.steps;
    if (difference > out.largest || out.steps == 1) out.largest = difference, out.largest_step = row.step;
    if (y != 0) out.relative += difference / std::abs(y), ++relative_steps;
    if (y == 0 && x != 0) ++out.zero_reference;
    const bool above = is_relative ? difference > out.threshold * std::abs(y) : difference > out.threshold;
    if (above && !out.first_above) out.first_above = row.step;
  }
  if (shared == 0) {
    const auto range = [](std::span<const metric_row> rows) {
      return std::to_string(rows.front().step) + " to " + std::to_string(rows.back().step);
    };
    throw config_error("--key " + std::string(key) + ": no step in common; A has steps " + range(a) + ", B " +
                       range(b));
  }
  if (out.steps > 0) out.mean_error /= static_cast<double>(out.steps);
  if (relative_steps > 0) out.relative /= static_cast<double>(relative_steps);
  return out;
}

RLCORE_INLINE speed_ratio compare_speed(std::span<const metric_row> a, std::span<const metric_row> b,
                                        std::int64_t steps) {
  const auto first_mean = [&](std::span<const metric_row> rows, std::int64_t& count) {
    double sum = 0;
    for (const metric_row& row : rows)
      if (count < steps && std::isfinite(row.values.get("perf/throughput")))
        sum += row.values.get("perf/throughput"), ++count;
    return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
  };
  const auto seconds = [](const metric_row& row) {
    return row.values.contains("timing_s/step") ? row.values.get("timing_s/step") : row.values.get("train/time(s)");
  };
  speed_ratio out;
  out.throughput_a = first_mean(a, out.steps_a);
  out.throughput_b = first_mean(b, out.steps_b);
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    if (i->step != j->step) {
      ++(i->step < j->step ? i : j);
      continue;
    }
    const double x = seconds(*i++), y = seconds(*j++);
    if (std::isfinite(x) && std::isfinite(y)) out.seconds_a += x, out.seconds_b += y;
  }
  if (!(out.seconds_a > 0)) out.seconds_a = out.seconds_b = std::numeric_limits<double>::quiet_NaN();
  return out;
}

RLCORE_INLINE std::vector<std::string> expand_key(const std::string& asked, std::span<const metric_row> a,
                                                  std::span<const metric_row> b) {
  if (!asked.ends_with('*')) return {asked};
  const std::string_view prefix = std::string_view(asked).substr(0, asked.size() - 1);
  const std::vector<std::string> others = names_of(b);
  std::vector<std::string> out;
  for (const std::string& name : names_of(a)) {
    const bool clock = name.starts_with("timing") || name.starts_with("perf/") || name == "train/time(s)";
    if (name.starts_with(prefix) && !(prefix.empty() && clock) &&
        std::find(others.begin(), others.end(), name) != others.end())
      out.push_back(name);
  }
  if (out.empty()) throw config_error("--key " + asked + ": the runs have no such metric in common");
  return out;
}

}  // namespace trainer
RLCORE_END
#endif
