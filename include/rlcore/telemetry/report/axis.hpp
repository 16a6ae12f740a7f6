// Round tick marks for a range of numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "rlcore/telemetry/report/text.hpp"

RLCORE_BEGIN
namespace trainer::html {

/// Ticks at multiples of 1, 2 or 5 times a power of ten inside [low, high], which fits the data.
struct axis {
  double low = 0, high = 1, step = 1;

  /// About `count` intervals; `whole` keeps the step an integer. A range without extent is widened. An end that no tick
  /// is near stays where the data end, with some room.
  static axis covering(double low, double high, int count, bool whole = false);

  std::vector<double> ticks() const;

  /// The label of a tick: as many digits as the step needs, 12k for thousands, 2e-7 for very small ones.
  std::string label(double x) const;
};

}  // namespace trainer::html
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace trainer::html {

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

}  // namespace trainer::html
RLCORE_END
#endif
