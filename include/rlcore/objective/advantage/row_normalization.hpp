// One number per row, normalised over the batch.
#pragma once

#include <cmath>
#include <cstddef>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/advantage/detail/outcome.hpp"
#include "rlcore/objective/advantage/whitening.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// x -> (x - mean) / (std + epsilon) over the scored rows of the batch: TRL's normalize_advantages after rloo, and the
/// last step of SPO (epsilon = 1e-8). With lengths, every row counts as often as it has tokens: what whitening of
/// [rows, tokens] does to values that are the same at each token of a row.
///
/// A NaN marks an unscored row: it is left out and gets 0. Equal values become exactly 0. Statistics are two-pass and
/// in double. Input and output may be the same vector. Throws std::invalid_argument if sizes do not fit or a value is
/// infinite.
struct row_normalization {
  whitening whiten{.epsilon = 1e-4, .guard = variance_guard::add_to_deviation};

  /// Every scored row counts once.
  template <class Values, class Out>
  void operator()(const Values& values, Out&& out) const {
    scratch_vector<double> x = detail::read_numbers("value", values);
    normalize(x, {});
    detail::write_numbers("normalized values", x, out);
  }
  /// Every scored row counts as often as it has tokens, whole numbers in `lengths`.
  template <class Values, class Lengths, class Out>
  void operator()(const Values& values, const Lengths& lengths, Out&& out) const {
    scratch_vector<double> x = detail::read_numbers("value", values);
    normalize(x, detail::read_lengths(lengths, x.size()));
    detail::write_numbers("normalized values", x, out);
  }

  /// In place; `length` is empty or has one whole number per row.
  void normalize(scratch_vector<double>& x, const scratch_vector<double>& length) const {
    const auto times = [&](std::size_t i) { return length.empty() ? 1.0 : length[i]; };
    moment_sums s;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!std::isnan(x[i])) s.add(static_cast<std::int64_t>(times(i)), times(i) * x[i], x[i], true);
    const double mean = s.mean();
    squared_deviations d;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!std::isnan(x[i])) d.sum.add(times(i) * (x[i] - mean) * (x[i] - mean));
    const affine map = whiten.map(s, d);
    for (double& v : x) v = std::isnan(v) ? 0.0 : map(v);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
