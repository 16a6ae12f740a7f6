// Learning-rate schedules, by the number of scheduler steps taken (0 in training step 1).
#pragma once

#include <algorithm>
#include <cstdint>
#include <numbers>
#include <stdexcept>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/elementary.hpp"

RLCORE_BEGIN
namespace optim {

/// Learning-rate schedules; their formulas are at schedule.
enum class schedule_kind { constant, cosine, wsd, linear };

/// Factor of the base learning rate (verl; the last: transformers, whose cosine_with_min_lr is cosine with i = 0). w =
/// warmup(), s = steps taken, n = total_steps, r = min_lr_ratio, i = init_lr_ratio:
///   constant: s < w: s / w; else 1.
///   cosine:   s < w: i + (1 - i) s / w; else max(r, (1 + r) / 2 + (1 - r) / 2 cos(2 pi num_cycles (s - w) / max(1, n -
///             w))).
///   wsd:      s < w: s / w; 1 for the next floor(stable_ratio (n - w)) steps; then r + (1 - r) max(0, (1 + cos(pi 2
///             num_cycles q)) / 2), q the fraction of the remaining steps done; r after n.
///   linear:   s < w: s / w; else max(0, (n - s) / max(1, n - w)).
struct schedule {
  schedule_kind kind = schedule_kind::constant;
  std::int64_t total_steps = 0;
  std::int64_t warmup_steps = -1;  ///< < 0: from warmup_ratio
  double warmup_ratio = 0, min_lr_ratio = 0, num_cycles = 0.5, stable_ratio = 0.9;
  double init_lr_ratio = 0;  ///< where cosine's warm-up begins; verl through 0.5.0: min_lr_ratio

  std::int64_t warmup() const noexcept {
    return warmup_steps >= 0 ? warmup_steps
                             : static_cast<std::int64_t>(warmup_ratio * static_cast<double>(total_steps));
  }

  /// The factor after s steps. Throws std::invalid_argument for a negative s.
  double factor(std::int64_t s) const {
    if (s < 0) throw std::invalid_argument("rlcore: schedule: negative step");
    const std::int64_t w = warmup();
    const double r = min_lr_ratio, rising = w > 0 ? static_cast<double>(s) / static_cast<double>(w) : 1;
    if (s < w) return kind == schedule_kind::cosine ? init_lr_ratio + (1 - init_lr_ratio) * rising : rising;
    if (kind == schedule_kind::constant) return 1;
    if (kind == schedule_kind::linear)
      return std::max(
          0.0, static_cast<double>(total_steps - s) / static_cast<double>(std::max<std::int64_t>(1, total_steps - w)));
    if (kind == schedule_kind::cosine) {
      const double q = static_cast<double>(s - w) / static_cast<double>(std::max<std::int64_t>(1, total_steps - w));
      return std::max(r, (1 + r) / 2 + (1 - r) / 2 * elementary::cos(2 * std::numbers::pi * num_cycles * q));
    }
    const auto stable = static_cast<std::int64_t>(stable_ratio * static_cast<double>(total_steps - w));
    if (s < w + stable) return 1;
    if (s >= total_steps) return r;
    const double q =
        static_cast<double>(s - w - stable) / static_cast<double>(std::max<std::int64_t>(1, total_steps - w - stable));
    return r + (1 - r) * std::max(0.0, 0.5 * (1 + elementary::cos(2 * std::numbers::pi * num_cycles * q)));
  }
};

}  // namespace optim
RLCORE_END
