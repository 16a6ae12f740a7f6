// Whitening: mean 0 and variance 1 over a batch, a group or a row.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/advantage/detail/groups.hpp"
#include "rlcore/objective/advantage/detail/whitening_loop.hpp"
#include "rlcore/objective/advantage/estimator.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Applies its stages in order to one number per row:
///   in_order(reward_clip{-1, 1}, rloo{})           // TRL's RLOO: clip, then compare
///   in_order(group_relative{}, reward_clip{})      // OpenRLHF: the normalised reward is clipped
///   in_order(rloo{}, row_normalization{})          // TRL's normalize_advantages
/// A stage is called as stage(x, groups, [lengths,] x), stage(x, x) or stage(x), whichever it has. An unscored row
/// (NaN) stays unscored for all stages and gets 0 at the end.
template <class... Stages>
struct in_order {
  std::tuple<Stages...> stages;
  /// The stages in the order in which they are applied.
  explicit constexpr in_order(Stages... s) : stages(s...) {}

  constexpr void check_settings() const {
    std::apply([](const auto&... stage) { (detail::check_part(stage), ...); }, stages);
  }

  /// `groups`: the number of consecutive rows in each group, or a vector with any integer that names the prompt of each
  /// row. Throws std::invalid_argument if sizes do not fit or a reward is infinite.
  template <class Rewards, class Groups, class Advantages>
  void operator()(const Rewards& rewards, const Groups& groups, Advantages&& advantages) const {
    run(rewards, advantages, [&](const auto& stage, scratch_vector<double>& x) {
      using stage_type = decltype(stage);
      if constexpr (requires(stage_type s) { s(x, groups, x); } && !requires(stage_type s) { s(x, x); })
        stage(x, groups, x);
      else if constexpr (requires(stage_type s) { s(x, x); })
        stage(x, x);
      else
        stage(x);
    });
  }
  /// `lengths`: response tokens of each row, for the stages that ask for them.
  template <class Rewards, class Groups, class Lengths, class Advantages>
  void operator()(const Rewards& rewards, const Groups& groups, const Lengths& lengths, Advantages&& advantages) const {
    run(rewards, advantages, [&](const auto& stage, scratch_vector<double>& x) {
      using stage_type = decltype(stage);
      if constexpr (requires(stage_type s) { s(x, groups, lengths, x); })
        stage(x, groups, lengths, x);
      else if constexpr (requires(stage_type s) { s(x, x); })
        stage(x, x);
      else if constexpr (requires(stage_type s) { s(x, groups, x); })
        stage(x, groups, x);
      else
        stage(x);
    });
  }

 private:
  template <class Rewards, class Advantages, class F>
  void run(const Rewards& rewards, Advantages& advantages, F one_stage) const {
    const scratch_vector<double> reward = detail::read_numbers("reward", rewards);
    scratch_vector<double> x = reward;
    const auto unscored = [&](double mark) {
      for (std::size_t i = 0; i < x.size(); ++i)
        if (reward[i] != reward[i]) x[i] = mark == 0 ? 0.0 : reward[i];
    };
    std::apply([&](const auto&... stage) { (..., (one_stage(stage, x), unscored(1))); }, stages);
    unscored(0);
    detail::write_numbers("advantages", x, advantages);
  }
};

/// How epsilon guards the denominator.
enum class variance_guard : std::uint8_t {
  add,               ///< sqrt(variance + epsilon): verl, TRL's PPO
  floor,             ///< sqrt(max(variance, epsilon)): OpenRLHF
  add_to_deviation,  ///< sqrt(variance) + epsilon: TRL's GRPO and RLOO
};

/// (x - mean) / denominator over the live tokens of the whole batch. Defaults are verl's masked_whiten.
///
/// x and the output (which may be x itself) are [rows, tokens] of float or double and any strides; statistics are
/// two-pass and in double. Masked slots are not read and get exactly 0. If all live values are the same (or only one is
/// live), they become exactly 0 (with centre = false: they stay); a batch without live values is no error. A live NaN
/// or infinity makes everything NaN. No bit depends on threads, strides or the split into parts.
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
  bool scale = true;            ///< false: only subtract the mean (OpenRLHF's no_std_norm)

  constexpr void check_settings() const { check_setting("whitening", "epsilon", epsilon, setting::coefficient); }

  /// All of it in one call; `exec` distributes the rows.
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
  /// The third pass: writes map() of the live values, and 0 to masked slots.
  template <class Values, class Out>
  RLCORE_FN void apply(const Values& values, const token_mask& mask, const affine& mapping, Out&& out) const {
    whitening_loop::transform(serial{}, as_view<2>(values), live_of(as_view<2>(values), mask), mapping,
                              as_view<2>(out));
  }

  /// The affine map of every value, given the statistics of all.
  affine map(const moment_sums& s, const squared_deviations& d) const noexcept {
    affine mapping{s.mean(), 1.0, centre ? 0.0 : s.mean()};
    if (!scale || s.count() < 2 || s.flat()) return mapping;
    const double variance = d.sum.value() / static_cast<double>(s.count() - (sample_variance ? 1 : 0));
    mapping.scale = 1 / denominator(variance);
    return mapping;
  }

  /// The denominator of x - mean at this variance, as `guard` says. NaN stays NaN.
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

/// whitened{gae{}}: the advantages of the estimator, whitened over the live tokens; its returns as they are (verl's and
/// OpenRLHF's PPO). Shapes and masked slots: see gae and whitening.
template <class Estimator>
struct whitened {
  static constexpr advantage_input reads = Estimator::reads;
  Estimator estimator;
  whitening whiten{};

  constexpr void check_settings() const { estimator.check_settings(); }

  /// Writes the whitened advantages and the estimator's returns.
  template <class Rewards, class Values, class Advantages, class Returns>
  void operator()(const Rewards& rewards, const Values& values, const token_mask& mask, Advantages&& advantages,
                  Returns&& returns) const {
    estimator(rewards, values, mask, advantages, returns);
    whiten(advantages, mask, advantages);
  }
};
template <class Estimator>
whitened(Estimator) -> whitened<Estimator>;

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
