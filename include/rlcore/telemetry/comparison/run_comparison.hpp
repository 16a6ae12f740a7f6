// Compares the logs of runs, and prints a page.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/core/version.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/telemetry/report/page.hpp"

RLCORE_BEGIN
namespace train {

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

/// Names and comparison of the two runs.
struct run_pair {
  std::string a, b;
  std::vector<curve_distance> curves;
  speed_ratio speed;

  /// Whether at least one curve was compared and none is above its threshold.
  bool within() const {
    return std::all_of(curves.begin(), curves.end(), [](const curve_distance& c) { return c.within(); }) &&
           !std::all_of(curves.begin(), curves.end(), [](const curve_distance& c) { return c.silent(); });
  }
};

namespace detail {

inline std::string percent(double x) { return html::brief(100 * x) + " %"; }

std::vector<std::vector<std::string>> distance_rows(const run_pair& runs);
inline std::vector<std::string> distance_head() {
  return {"metric", "steps", "mean error", "relative", "largest, at step", "first above", "threshold", "result"};
}

/// Remarks below the table: "name: ..." lines.
std::vector<std::string> distance_remarks(const run_pair& runs);

/// The steps over which throughput is averaged: "first 4 steps", or "first 2 and 4 steps" of A and B.
inline std::string averaged_steps(const speed_ratio& s) {
  const std::string a = std::to_string(s.steps_a), b = std::to_string(s.steps_b);
  if (s.steps_a != s.steps_b) return "first " + a + " and " + b + " steps";
  return s.steps_a == 1 ? "first step" : "first " + a + " steps";
}

/// Throughput and time, as far as the runs log them.
std::vector<std::pair<std::string, std::string>> speed_lines(const speed_ratio& s);

}  // namespace detail

/// The comparison as text.
std::string run_comparison_table(const run_pair& runs);

/// The comparison as a self-contained HTML page; the same runs give the same text.
std::string run_comparison_html(const run_pair& runs);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::vector<std::string> names_of(std::span<const metric_row> rows) {
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const metric_row& row : rows)
    for (const auto& [name, x] : row.values)
      if (known.insert(name).second) names.push_back(name);
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
    const std::set<std::string> first(names.begin(), names.end());
    for (std::string& name : in_b ? std::vector<std::string>() : names_of(b))
      if (!first.contains(name)) names.push_back(std::move(name));
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

}  // namespace train

namespace train::detail {

RLCORE_INLINE std::vector<std::vector<std::string>> distance_rows(const run_pair& runs) {
  std::vector<std::vector<std::string>> rows;
  for (const curve_distance& c : runs.curves)
    rows.push_back({c.key, std::to_string(c.steps), c.steps > 0 ? percent(c.mean_error) : "-",
                    c.steps > c.zero_reference ? percent(c.relative) : "-",
                    c.largest > 0 ? percent(c.largest) + " at " + std::to_string(c.largest_step) : "-",
                    c.first_above ? std::to_string(*c.first_above) : "-",
                    (c.is_relative ? "relative " : "") + percent(c.threshold), c.result()});
  return rows;
}

RLCORE_INLINE std::vector<std::string> distance_remarks(const run_pair& runs) {
  std::vector<std::string> out;
  for (const curve_distance& c : runs.curves) {
    if (c.needs_signal && c.silent())
      out.push_back(c.key + ": 0 in every step of both runs; there is no signal to compare");
    if (c.one_not_finite > 0)
      out.push_back(c.key + ": " + std::to_string(c.one_not_finite) + " steps are not finite in one run only");
    if (c.not_finite > 0)
      out.push_back(c.key + ": " + std::to_string(c.not_finite) + " steps left out, not finite in either run");
    if (c.zero_reference > 0)
      out.push_back(c.key + ": " + std::to_string(c.zero_reference) +
                    " steps have no relative error, B is 0 there and A is not");
  }
  return out;
}

RLCORE_INLINE std::vector<std::pair<std::string, std::string>> speed_lines(const speed_ratio& s) {
  std::vector<std::pair<std::string, std::string>> out;
  if (std::isfinite(s.throughput()))
    out.emplace_back("throughput A / B", html::brief(s.throughput()) + "  (" + html::brief(s.throughput_a) + " / " +
                                             html::brief(s.throughput_b) + " tokens/s, mean of the " +
                                             averaged_steps(s) + ")");
  if (std::isfinite(s.time()))
    out.emplace_back("time B / A", html::brief(s.time()) + "  (" + html::brief(s.seconds_b) + " s / " +
                                       html::brief(s.seconds_a) + " s in the steps of both)");
  return out;
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE std::string run_comparison_table(const run_pair& runs) {
  std::string out = "A  " + runs.a + "\nB  " + runs.b + "  (reference)\n\n";
  std::vector<std::vector<std::string>> rows = detail::distance_rows(runs);
  rows.insert(rows.begin(), detail::distance_head());
  std::vector<std::size_t> width(rows.front().size(), 0);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  for (const auto& row : rows) {
    out += row[0] + std::string(width[0] - row[0].size(), ' ');
    for (std::size_t i = 1; i + 1 < row.size(); ++i) out += "  " + std::string(width[i] - row[i].size(), ' ') + row[i];
    out += "  " + row.back() + "\n";
  }
  out += "\n";
  for (const std::string& line : detail::distance_remarks(runs)) out += "note: " + line + "\n";
  for (const auto& [name, text] : detail::speed_lines(runs.speed)) out += name + "  " + text + "\n";
  return out;
}

RLCORE_INLINE std::string run_comparison_html(const run_pair& runs) {
  using namespace html;
  std::string out = page_head(
      runs.within() ? "Within the thresholds"
      : std::any_of(runs.curves.begin(), runs.curves.end(), [](const curve_distance& c) { return c.above(); })
          ? "Above a threshold"
          : "No signal",
      "A: " + runs.a + "  \xC2\xB7  B, the reference: " + runs.b + "  \xC2\xB7  rlcore " RLCORE_VERSION_STRING);
  std::string tiles;
  for (const curve_distance& c : runs.curves)
    if (runs.curves.size() <= 4)
      tiles += tile(c.key, c.steps > 0 ? train::detail::percent(c.gated()) : "\xE2\x80\x93",
                    std::string(c.result()) + ", " + train::detail::percent(c.threshold));
  if (std::isfinite(runs.speed.throughput()))
    tiles += tile("Throughput, A / B", brief(runs.speed.throughput()), train::detail::averaged_steps(runs.speed));
  if (std::isfinite(runs.speed.time())) tiles += tile("Time, B / A", brief(runs.speed.time()), "all common steps");
  if (!tiles.empty()) out += "<div class=\"tiles\">\n" + tiles + "</div>\n";
  out +=
      "<h2>Mean error</h2>\n<p class=\"about\">Mean over the steps of |A \xE2\x88\x92 B|, times 100; relative: of "
      "|A \xE2\x88\x92 B| / |B|.</p>\n" +
      table(train::detail::distance_head(), train::detail::distance_rows(runs), 1);
  std::string remarks;
  for (const std::string& line : train::detail::distance_remarks(runs))
    remarks += (remarks.empty() ? "" : "<br>\n") + escape(line);
  if (!remarks.empty()) out += "<p class=\"about\">" + remarks + "</p>\n";
  out += "<h2>Curves</h2>\n<div class=\"charts\">\n";
  for (const curve_distance& c : runs.curves) {
    const auto curve = [&](std::string label, const std::vector<double>& y, std::size_t colour, bool dashed = false) {
      series s{std::move(label), {}};
      for (std::size_t i = 0; i < y.size(); ++i) s.points.push_back({c.at[i], y[i]});
      s.dots = y.size() <= 30 && !dashed, s.colour = colour, s.dashed = dashed;
      return s;
    };
    const auto last = [](const series& s) { return brief(s.points.back().y); };
    chart both{c.key, "", {curve("A", c.a, 1), curve("B, reference", c.b, 2, true)}, false};
    std::string cards =
        card(c.key, "", legend({{"A", last(both.curves[0])}, {"B, reference", last(both.curves[1])}}, false),
             line_chart(both));
    std::vector<double> difference;
    for (std::size_t i = 0; i < c.at.size(); ++i) difference.push_back(std::abs(c.a[i] - c.b[i]));
    chart apart{c.key + ", difference", "", {curve("|A - B|", difference, 1)}, true};
    apart.smooth = false;
    std::vector<std::pair<std::string, std::string>> entries{{"|A \xE2\x88\x92 B|", last(apart.curves[0])}};
    if (!c.is_relative && c.largest > 0.2 * c.threshold) {
      apart.curves.push_back(curve("threshold", std::vector<double>(c.at.size(), c.threshold), 2, true));
      entries.emplace_back("threshold", brief(c.threshold));
    }
    cards += card(c.key + ", difference", "mean " + brief(c.mean_error), legend(entries, false), line_chart(apart));
    out += cards;
  }
  out += "</div>\n";
  return out + "</body>\n</html>\n";
}

}  // namespace train
RLCORE_END
#endif
