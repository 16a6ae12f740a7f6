// Output of a two-run comparison: an aligned table, and an HTML page with both curves of every metric.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/version.hpp"
#include "rlcore/telemetry/comparison/run_comparison.hpp"
#include "rlcore/telemetry/report/page.hpp"

RLCORE_BEGIN
namespace trainer {

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

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace trainer::detail {

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

}  // namespace trainer::detail

namespace trainer {

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
      tiles += tile(c.key, c.steps > 0 ? trainer::detail::percent(c.gated()) : "\xE2\x80\x93",
                    std::string(c.result()) + ", " + trainer::detail::percent(c.threshold));
  if (std::isfinite(runs.speed.throughput()))
    tiles += tile("Throughput, A / B", brief(runs.speed.throughput()), trainer::detail::averaged_steps(runs.speed));
  if (std::isfinite(runs.speed.time())) tiles += tile("Time, B / A", brief(runs.speed.time()), "all common steps");
  if (!tiles.empty()) out += "<div class=\"tiles\">\n" + tiles + "</div>\n";
  out +=
      "<h2>Mean error</h2>\n<p class=\"about\">Mean over the steps of |A \xE2\x88\x92 B|, times 100; relative: of "
      "|A \xE2\x88\x92 B| / |B|.</p>\n" +
      table(trainer::detail::distance_head(), trainer::detail::distance_rows(runs), 1);
  std::string remarks;
  for (const std::string& line : trainer::detail::distance_remarks(runs))
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
    std::string pictures =
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
    pictures += card(c.key + ", difference", "mean " + brief(c.mean_error), legend(entries, false), line_chart(apart));
    out += pictures;
  }
  out += "</div>\n";
  return out + "</body>\n</html>\n";
}

}  // namespace trainer
RLCORE_END
#endif
