// Values made to have mean 0 and variance 1.
#pragma once

#include <cmath>
#include <cstdint>

#include "rlcore/core/settings.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/advantage/detail/whitening_loop.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// How a small variance is kept from the denominator.
enum class variance_guard : std::uint8_t {
  add,               ///< sqrt(variance + epsilon): verl, TRL's PPO
  floor,             ///< sqrt(max(variance, epsilon)): OpenRLHF
  add_to_deviation,  ///< sqrt(variance) + epsilon: TRL's GRPO and RLOO
};

/// (x - mean) / denominator over the live tokens of the whole batch. Defaults are verl's masked_whiten.
///
/// x and the output (which may be x itself) are [rows, tokens] of float or double and any strides; statistics are
/// two-pass and in double. Masked slots are not read and get exactly 0. If all live values are the same, so also if
/// there is only one, they become exactly 0 (with centre = false: they stay), and no live value at all is no error. A
/// live NaN or infinity makes everything NaN. No bit depends on threads, strides or the split into parts.
///
/// One call does it all; over ranks, join the statistics between the passes:
///   moment_sums s = w.sums(x, mask);                          // += the other ranks'
///   squared_deviations d = w.deviations(x, mask, s.mean());   // += the other ranks'
///   w.apply(x, mask, w.map(s, d), out);
struct whitening {
  double epsilon = 1e-8;
  variance_guard guard = variance_guard::add;
  bool sample_variance = true;  ///< divide by n - 1 (verl, TRL), false: by n (OpenRLHF)
  bool centre = true;           ///< false: the mean is added back at the end (TRL's whiten_rewards)
  bool scale = true;            ///< false: only the mean is taken away (OpenRLHF's no_std_norm)

  constexpr void check_settings() const { check_setting("whitening", "epsilon", epsilon, setting::coefficient); }

  /// All of it in one call; `exec` shares out the rows.
  template <executor Executor, class Values, class Out>
  RLCORE_FN void operator()(const Executor& exec, const Values& values, const token_mask& mask, Out&& out) const {
    whitening_loop::all_passes(exec, *this, as_view<2>(values), mask, as_view<2>(out));
  }
  /// The same on the calling thread.
  template <class Values, class Out>
  RLCORE_FN void operator()(const Values& values, const token_mask& mask, Out&& out) const {
    (*this)(serial{}, values, mask, out);
  }

  /// The first pass: count and sum of the live values of this part.
  template <class Values>
  RLCORE_FN moment_sums sums(const Values& values, const token_mask& mask) const {
    auto live = live_of(as_view<2>(values), mask);
    return whitening_loop::sums(serial{}, as_view<2>(values), live);
  }
  /// The second pass: squared deviations of the live values of this part from `mean`, that of all parts.
  template <class Values>
  RLCORE_FN squared_deviations deviations(const Values& values, const token_mask& mask, double mean) const {
    return whitening_loop::squares(serial{}, as_view<2>(values), live_of(as_view<2>(values), mask), mean);
  }
  /// The third pass: writes the live values as map() sends them, and 0 to masked slots.
  template <class Values, class Out>
  RLCORE_FN void apply(const Values& values, const token_mask& mask, const affine& mapping, Out&& out) const {
    whitening_loop::transform(serial{}, as_view<2>(values), live_of(as_view<2>(values), mask), mapping,
                              as_view<2>(out));
  }

  /// What happens to every value, given the statistics of all of them.
  affine map(const moment_sums& s, const squared_deviations& d) const noexcept {
    affine mapping{s.mean(), 1.0, centre ? 0.0 : s.mean()};
    if (!scale || s.count() < 2 || s.flat()) return mapping;
    const double variance = d.sum.value() / static_cast<double>(s.count() - (sample_variance ? 1 : 0));
    mapping.scale = 1 / denominator(variance);
    return mapping;
  }

  /// What x - mean is divided by at this variance, as `guard` says. NaN stays NaN.
  double denominator(double variance) const noexcept {
    if (guard == variance_guard::add_to_deviation) return std::sqrt(variance) + epsilon;
    if (guard == variance_guard::add) return std::sqrt(variance + epsilon);
    return std::sqrt(variance < epsilon ? epsilon : variance);  // NaN stays
  }

 private:
  template <class View>
  RLCORE_FN static whitening_loop::live_blocks live_of(const View& values, const token_mask& mask) {
    detail::check_mask_shape(mask, "values", values.shape);
    return {mask, values.shape};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
