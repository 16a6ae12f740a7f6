// Interpolation of measured points.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace trainer::planning {

/// y over x through points, both > 0, x ascending: log-log linear interpolation, no fit.
struct curve {
  /// One measurement.
  struct point {
    double x = 0, y = 0;
  };
  std::vector<point> points;

  bool empty() const noexcept { return points.empty(); }
  /// Extrapolates the first and the last segment outside the points; for times. Throws std::logic_error without points.
  double at(double x) const {
    if (points.empty()) throw std::logic_error("rlcore: a curve without points");
    if (points.size() == 1 || x <= 0) return points.front().y;
    std::size_t k = 1;
    while (k + 1 < points.size() && points[k].x < x) ++k;
    const point &a = points[k - 1], &b = points[k];
    const double slope = std::log(b.y / a.y) / std::log(b.x / a.x);
    return a.y * std::exp(slope * std::log(x / a.x));
  }
  /// Holds the first and the last value outside the points; for rates.
  double held(double x) const {
    if (points.empty()) throw std::logic_error("rlcore: a curve without points");
    return at(std::clamp(x, points.front().x, points.back().x));
  }
};

/// z over (x, y): a curve over y for each of several x, with straight lines between logarithms of x too; held outside.
struct surface {
  /// The curve over y at one x.
  struct row {
    double x = 0;
    curve over_y;
  };
  std::vector<row> rows;

  bool empty() const noexcept { return rows.empty(); }
  /// z at (x, y). Throws std::logic_error if there are no rows.
  double held(double x, double y) const {
    curve across;
    for (const row& r : rows) across.points.push_back({r.x, r.over_y.held(y)});
    return across.held(x);
  }
};

}  // namespace trainer::planning
RLCORE_END
