// A chart of curves as SVG, with its axes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/telemetry/report/text.hpp"

RLCORE_BEGIN
namespace train::html {

/// Ticks at multiples of 1, 2 or 5 times a power of ten inside [low, high], which fits the data.
struct axis {
  double low = 0, high = 1, step = 1;

  /// About `count` intervals; `whole` keeps the step an integer. A range without extent is widened. An end without a
  /// nearby tick is placed at the end of the data, with some margin.
  static axis covering(double low, double high, int count, bool whole = false);

  std::vector<double> ticks() const;

  /// The label of a tick: as many digits as the step needs, 12k for thousands, 2e-7 for very small ones.
  std::string label(double x) const;
};

/// A step and its value.
struct point {
  double x = 0, y = 0;
};

/// One curve. `low` and `high`, if given, are the edges of a band around it (same x as `points`).
struct series {
  std::string label;
  std::vector<point> points;
  bool dots = false;  ///< mark every point: few, separate measurements
  std::vector<double> low = {}, high = {};
  std::size_t colour = 0;  ///< number of its colour, from 1; 0: its place in the chart
  bool dashed = false;     ///< for the second round through the colours
  bool behind = false;     ///< thin and pale, without a name: one of several runs behind their mean curve
};

/// A chart of one or several curves.
struct chart {
  std::string title, unit;
  std::vector<series> curves;
  bool from_zero = true;  ///< the axis starts at 0 if no number is negative and some are near it
  bool smooth = true;     ///< long curves are drawn pale, with their moving mean on top
};

/// Steps of the moving mean of a curve of `count` points; 0 for a curve short enough to be read as it is.
inline std::size_t smoothing_window(std::size_t count) { return count > 200 ? (count / 50) | 1u : 0; }

/// The drawing area and both axes.
class plot_area {
 public:
  static constexpr double width = 480, height = 236, left = 66, right = 14, top = 12, bottom = 40;

  /// Steps from `first` to `last` across, `y` up.
  plot_area(double first, double last, axis y) : first_(first), last_(last > first ? last : first + 1), y_(y) {}

  /// Where a step lies, in units of the drawing from its left.
  double x(double step) const { return left + (step - first_) / (last_ - first_) * (width - left - right); }
  /// Where a value lies, in units of the drawing from its top.
  double y(double value) const {
    return height - bottom - (value - y_.low) / (y_.high - y_.low) * (height - top - bottom);
  }

  /// The opening tag of a drawing; screen readers read the title.
  static std::string open(const std::string& title) {
    return "<svg viewBox=\"0 0 " + decimal(width, 0) + " " + decimal(height, 0) + "\" role=\"img\" aria-label=\"" +
           escape(title) + "\">\n";
  }
  /// Grid, tick labels and axis title.
  std::string frame() const;
  double first() const noexcept { return first_; }
  double last() const noexcept { return last_; }

 private:
  double first_, last_;
  axis y_;
};

namespace detail {

/// Of many points, the smallest and the largest of each of 400 stretches: nothing that sticks out is lost.
std::vector<point> thinned(const std::vector<point>& points);

/// The mean of `window` points around each one, fewer at the ends; numbers that are not finite do not count.
std::vector<point> smoothed(const std::vector<point>& points, std::size_t window);

/// A path through the points; a number that is not finite leaves a gap.
std::string path(const plot_area& area, const std::vector<point>& points);

std::string band(const plot_area& area, const series& s);

/// Invisible columns that show the numbers of their step when pointed at.
std::string hover(const plot_area& area, const chart& c);

}  // namespace detail

/// Curves over steps; empty if there is nothing finite to draw. A curve of colour k has class s<k>.
std::string line_chart(const chart& c);

/// Columns over steps, one part per label on top of the other; `parts[k][i]` is part k at `steps[i]`. More than 100
/// steps are averaged in equal stretches.
std::string stacked_chart(const std::string& title, const std::vector<double>& steps,
                          const std::vector<std::string>& labels, const std::vector<std::vector<double>>& parts);

}  // namespace train::html
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace train::html {

RLCORE_INLINE axis axis::covering(double low, double high, int count, bool whole) {
  if (!(high > low)) {
    const double room = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= room;
    high += room;
  }
  const double rough = (high - low) / count, power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough * (1 - 1e-9)) {
      step = factor * power;
      break;
    }
  if (whole) step = std::max(1.0, std::round(step));
  const double room = (high - low) * 0.03;
  const double below = std::floor(low / step + 1e-9) * step, above = std::ceil(high / step - 1e-9) * step;
  return {low - below > 0.4 * step ? low - room : below, above - high > 0.4 * step ? high + room : above, step};
}

RLCORE_INLINE std::vector<double> axis::ticks() const {
  std::vector<double> out;
  const double first = std::ceil(low / step - 1e-6);
  const auto count = static_cast<int>(std::floor(high / step + 1e-6) - first);
  for (int i = 0; i <= count; ++i) out.push_back((first + i) * step);
  return out;
}

RLCORE_INLINE std::string axis::label(double x) const {
  if (std::abs(x) < step * 1e-6) return "0";
  const double largest = std::max(std::abs(low), std::abs(high));
  if (largest < 1e-3 || largest >= 1e7) return brief(std::round(x / step) * step);
  if (largest >= 1e4 && step >= 100) return decimal(x / 1000, step >= 1000 ? 0 : 1) + "k";
  return decimal(x, std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9))));
}

RLCORE_INLINE std::string plot_area::frame() const {
  std::string out;
  for (const double tick : y_.ticks()) {
    const std::string at = coordinate(y(tick));
    const bool base = std::abs(tick) < y_.step * 1e-6;
    out += "<line class=\"" + std::string(base ? "base" : "grid") + "\" x1=\"" + coordinate(left) + "\" x2=\"" +
           coordinate(width - right) + "\" y1=\"" + at + "\" y2=\"" + at + "\"/>";
    out += "<text class=\"tick\" x=\"" + coordinate(left - 7) + "\" y=\"" + coordinate(y(tick) + 4) +
           "\" text-anchor=\"end\">" + y_.label(tick) + "</text>\n";
  }
  if (!(y_.low <= 0 && y_.high >= 0))
    out += "<line class=\"base\" x1=\"" + coordinate(left) + "\" x2=\"" + coordinate(width - right) + "\" y1=\"" +
           coordinate(height - bottom) + "\" y2=\"" + coordinate(height - bottom) + "\"/>\n";
  const axis steps = axis::covering(first_, last_, 6, true);
  for (const double tick : steps.ticks()) {
    if (tick < first_ || tick > last_) continue;
    out += "<line class=\"base\" x1=\"" + coordinate(x(tick)) + "\" x2=\"" + coordinate(x(tick)) + "\" y1=\"" +
           coordinate(height - bottom) + "\" y2=\"" + coordinate(height - bottom + 4) +
           "\"/><text class=\"tick\" x=\"" + coordinate(x(tick)) + "\" y=\"" + coordinate(height - bottom + 17) +
           "\" text-anchor=\"middle\">" + steps.label(tick) + "</text>\n";
  }
  return out + "<text class=\"tick\" x=\"" + coordinate((left + width - right) / 2) + "\" y=\"" +
         coordinate(height - 5) + "\" text-anchor=\"middle\">step</text>\n";
}

}  // namespace train::html

namespace train::html::detail {

RLCORE_INLINE std::vector<point> thinned(const std::vector<point>& points) {
  constexpr std::size_t stretches = 400;
  if (points.size() <= 3 * stretches) return points;
  std::vector<point> out;
  for (std::size_t s = 0; s < stretches; ++s) {
    const std::size_t first = s * points.size() / stretches, last = (s + 1) * points.size() / stretches;
    std::size_t low = first, high = first;
    for (std::size_t i = first; i < last; ++i) {
      if (points[i].y < points[low].y) low = i;
      if (points[i].y > points[high].y) high = i;
    }
    out.push_back(points[std::min(low, high)]);
    if (low != high) out.push_back(points[std::max(low, high)]);
  }
  return out;
}

RLCORE_INLINE std::vector<point> smoothed(const std::vector<point>& points, std::size_t window) {
  std::vector<double> sum(1, 0.0), count(1, 0.0);
  for (const point& p : points) {
    sum.push_back(sum.back() + (std::isfinite(p.y) ? p.y : 0));
    count.push_back(count.back() + (std::isfinite(p.y) ? 1 : 0));
  }
  std::vector<point> out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t first = i - std::min(window / 2, i), last = std::min(i + window / 2 + 1, points.size());
    const double n = count[last] - count[first];
    out.push_back({points[i].x, n > 0 ? (sum[last] - sum[first]) / n : std::numeric_limits<double>::quiet_NaN()});
  }
  return out;
}

RLCORE_INLINE std::string path(const plot_area& area, const std::vector<point>& points) {
  std::string out;
  bool drawing = false;
  for (const point& p : points) {
    if (!std::isfinite(p.y)) {
      drawing = false;
      continue;
    }
    out += (drawing ? "L" : "M") + coordinate(area.x(p.x)) + " " + coordinate(area.y(p.y));
    drawing = true;
  }
  return out;
}

RLCORE_INLINE std::string band(const plot_area& area, const series& s) {
  std::vector<point> upper, lower;
  for (std::size_t i = 0; i < s.points.size(); ++i)
    if (std::isfinite(s.low[i]) && std::isfinite(s.high[i])) {
      upper.push_back({s.points[i].x, s.high[i]});
      lower.push_back({s.points[i].x, s.low[i]});
    }
  if (upper.empty()) return {};
  std::string out = path(area, upper);
  for (auto p = lower.rbegin(); p != lower.rend(); ++p)
    out += "L" + coordinate(area.x(p->x)) + " " + coordinate(area.y(p->y));
  return out + "Z";
}

RLCORE_INLINE std::string hover(const plot_area& area, const chart& c) {
  std::vector<double> steps;
  for (const series& s : c.curves)
    for (const point& p : s.points) steps.push_back(p.x);
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  const std::size_t stride = (steps.size() + 299) / 300;
  std::string out;
  for (std::size_t i = 0; i < steps.size(); i += std::max<std::size_t>(stride, 1)) {
    const double half = (area.x(area.last()) - area.x(area.first())) /
                        static_cast<double>(std::max<std::size_t>(steps.size() - 1, 1)) / 2 *
                        static_cast<double>(stride);
    std::string words = "step " + decimal(steps[i], 0);
    for (const series& s : c.curves) {
      if (s.behind) continue;
      const auto at = std::lower_bound(s.points.begin(), s.points.end(), steps[i],
                                       [](const point& p, double x) { return p.x < x; });
      if (at == s.points.end() || at->x != steps[i]) continue;
      words += "\n" + s.label + ": " + brief(at->y);
      const auto k = static_cast<std::size_t>(at - s.points.begin());
      if (!s.low.empty()) words += " (" + brief(s.low[k]) + " to " + brief(s.high[k]) + ")";
    }
    const double from = std::max(area.x(steps[i]) - half, plot_area::left),
                 to = std::min(area.x(steps[i]) + half, plot_area::width - plot_area::right);
    out += "<rect class=\"hover\" x=\"" + coordinate(from) + "\" y=\"" + coordinate(plot_area::top) + "\" width=\"" +
           coordinate(std::max(to - from, 2.0)) + "\" height=\"" +
           coordinate(plot_area::height - plot_area::top - plot_area::bottom) + "\"><title>" + escape(words) +
           "</title></rect>\n";
  }
  return out;
}

}  // namespace train::html::detail

namespace train::html {

RLCORE_INLINE std::string line_chart(const chart& c) {
  double low = std::numeric_limits<double>::infinity(), high = -low, first = low, last = -low;
  const auto see = [&](double y) {
    if (!std::isfinite(y)) return;
    low = std::min(low, y);
    high = std::max(high, y);
  };
  for (const series& s : c.curves) {
    for (const point& p : s.points) {
      see(p.y);
      first = std::min(first, p.x);
      last = std::max(last, p.x);
    }
    for (const double y : s.low) see(y);
    for (const double y : s.high) see(y);
  }
  if (!(low <= high)) return {};
  if (c.from_zero && low >= 0 && (low <= 0.6 * high || low == high)) low = 0;
  if (low == 0 && high == 0) high = 1;
  const plot_area area(first, last, axis::covering(low, high, 5));
  std::string out = plot_area::open(c.title) + area.frame();
  for (std::size_t i = 0; i < c.curves.size(); ++i) {
    const series& s = c.curves[i];
    const std::string number = std::to_string(s.colour > 0 ? s.colour : i + 1);
    if (!s.low.empty()) out += "<path class=\"band f" + number + "\" d=\"" + detail::band(area, s) + "\"/>\n";
    const std::size_t window = c.smooth ? smoothing_window(s.points.size()) : 0;
    const auto line = [&](const char* kind, const std::vector<point>& points) {
      out += std::string("<path class=\"") + kind + (s.dashed ? " dash s" : " s") + number + "\" d=\"" +
             detail::path(area, detail::thinned(points)) + "\"/>\n";
    };
    line(window > 0 || s.behind ? "line pale" : "line", s.points);
    if (s.behind) continue;
    if (window > 0) line("line", detail::smoothed(s.points, window));
    const bool every = s.dots && s.points.size() <= 80;
    const auto finite = [&](std::size_t k) { return k < s.points.size() && std::isfinite(s.points[k].y); };
    for (std::size_t k = 0; k < s.points.size(); ++k)
      if (finite(k) && (every || !(finite(k - 1) || finite(k + 1))))  // a point without neighbours has no visible line
        out += "<circle class=\"dot f" + number + "\" cx=\"" + coordinate(area.x(s.points[k].x)) + "\" cy=\"" +
               coordinate(area.y(s.points[k].y)) + "\" r=\"3.5\"/>\n";
  }
  return out + detail::hover(area, c) + "</svg>\n";
}

RLCORE_INLINE std::string stacked_chart(const std::string& title, const std::vector<double>& steps,
                                        const std::vector<std::string>& labels,
                                        const std::vector<std::vector<double>>& parts) {
  if (steps.empty() || parts.empty()) return {};
  const std::size_t columns = std::min<std::size_t>(steps.size(), 100);
  double high = 0;
  std::vector<std::vector<double>> mean(columns, std::vector<double>(parts.size(), 0.0));
  for (std::size_t c = 0; c < columns; ++c) {
    const std::size_t first = c * steps.size() / columns, last = (c + 1) * steps.size() / columns;
    double sum = 0;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      for (std::size_t i = first; i < last; ++i) mean[c][k] += parts[k][i];
      sum += mean[c][k] /= static_cast<double>(last - first);
    }
    high = std::max(high, sum);
  }
  const plot_area area(steps.front() - 0.5, steps.back() + 0.5, axis::covering(0, high > 0 ? high : 1, 5));
  std::string out = plot_area::open(title) + area.frame();
  const double slot = (plot_area::width - plot_area::left - plot_area::right) / static_cast<double>(columns);
  const double gap = slot > 6 ? 2 : slot > 3 ? 1 : 0;
  for (std::size_t c = 0; c < columns; ++c) {
    const std::size_t first = c * steps.size() / columns, last = (c + 1) * steps.size() / columns;
    std::string words =
        "step " + decimal(steps[first], 0) + (last - first > 1 ? " to " + decimal(steps[last - 1], 0) + " (mean)" : "");
    double below = 0;
    out += "<g>";
    for (std::size_t k = 0; k < parts.size(); ++k) {
      words += "\n" + labels[k] + ": " + brief(mean[c][k]) + " s";
      const double upper = area.y(below + mean[c][k]), lower = area.y(below);
      below += mean[c][k];
      if (lower - upper < 0.05) continue;
      out += "<rect class=\"f" + std::to_string(k + 1) + "\" x=\"" +
             coordinate(plot_area::left + slot * static_cast<double>(c) + gap / 2) + "\" y=\"" + decimal(upper, 2) +
             "\" width=\"" + decimal(slot - gap, 2) + "\" height=\"" + decimal(lower - upper, 2) + "\"/>";
    }
    out += "<title>" + escape(words) + "</title></g>\n";
  }
  return out + "</svg>\n";
}

}  // namespace train::html
RLCORE_END
#endif
