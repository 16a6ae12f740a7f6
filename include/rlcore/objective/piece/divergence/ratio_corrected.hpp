// KL estimators corrected by importance ratios, for tokens sampled from an older policy.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/core/elementary.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/live_rows.hpp"
#include "rlcore/objective/loop/report.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// stop_gradient(min(r, bound)) v with r = exp(logp - old_logp): value w v, slope w v'. The slope of
/// ratio_weighted{k2{}} is w d, the gradient of KL(policy || reference) from an older policy's tokens with a bounded
/// weight. straight_through{value_clamped{k3{}}, ratio_weighted{k2{}}} is OpenRLHF's kl.unbiased_gradient, whose bound
/// this is.
template <class Divergence>
struct ratio_weighted : forwarding_piece<Divergence> {
  static constexpr field reads = Divergence::reads | field::old_logp;
  static constexpr bool stops_gradient = true;
  double bound = 10.0;

  /// The divergence `d` times the ratio, which counts as `bound_` at most.
  constexpr explicit ratio_weighted(Divergence d, double bound_ = 10.0)
      : forwarding_piece<Divergence>(d), bound(bound_) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Divergence>> operator()(const token<V>& t) const noexcept {
    const V w = Math::min(Math::exp(t.logp - t.old_logp), V(bound));
    auto result = this->piece.template operator()<Math, V>(t);
    result.value = w * result.value;
    result.slope = w * result.slope;
    return result;
  }
};

/// r v with r = exp(logp - old_logp) and v the value of another estimator. slope: r (v + v'), the product rule, since r
/// depends on logp as well. With d = logp - ref_logp:
///
///   ratio_corrected{k1{}}   value r d              slope r (d + 1)      (a loss with a signal, unlike k1 alone)
///   ratio_corrected{k2{}}   value r d^2 / 2        slope r (d + d^2 / 2)
///   ratio_corrected{k3{}}   value r (e^-d - 1 + d) slope r d            TRL's use_bias_correction_kl
///
/// Averaged over tokens of the old policy, the values are those of the estimator under the current policy, and the
/// slopes of k1 and k3 are the gradient of KL(policy || reference) (DeepSeek-V3.2 2025). The ratio is not limited.
/// Where logp falls without end, r takes any power of d with it: values and slopes go to 0, and the value of k3 to
/// exp(ref_logp - old_logp).
template <class Divergence>
struct ratio_corrected {
  static constexpr field reads = Divergence::reads | field::old_logp;
  static constexpr std::string_view name = Divergence::name;
  static_assert(wrt_of<Divergence>() == field::logp && monitor_count<Divergence> == 0,
                "rlcore: ratio_corrected holds a divergence like k1, k2 or k3: a slope by logp and no monitors");
  [[no_unique_address]] Divergence divergence;

  /// The divergence `d` times the ratio.
  constexpr explicit ratio_corrected(Divergence d) : divergence(d) {}

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V ratio = Math::exp(t.logp - t.old_logp);
    const term<V> v = divergence.template operator()<Math, V>(t);
    const auto gone = ratio == V(0);
    // value + slope of k3 is d, but as a sum it would lose all digits where e^-d is large
    if constexpr (requires { divergence.template value_plus_slope<Math, V>(t); })
      return {divergence.template value_times_ratio<Math, V>(t, ratio),
              ratio * finite_if<Math>(gone, divergence.template value_plus_slope<Math, V>(t))};
    else
      return {ratio * finite_if<Math>(gone, v.value),
              ratio * (finite_if<Math>(gone, v.value) + finite_if<Math>(gone, v.slope))};
  }

 private:
  /// x as a factor of 0: never infinite, and NaN if x is.
  template <class Math, class M, class V>
  RLCORE_FN static V finite_if(const M& condition, const V& x) noexcept {
    return Math::select(condition, Math::clamp(x, V(-1e30), V(1e30)), x);
  }
};

/// sum over t of s v_t with s = exp(mean over the row of logp - old_logp) and v a divergence: TRL's
/// use_bias_correction_kl with importance_sampling_level = "sequence". slope of the sum by logp_t, s included:
/// s v_t' + (s / n) sum over r of v_r.
///
/// A token's slope needs two statistics of its row, s and the sum of v, while a piece of the token loop can gather one.
/// So this is a function of one row, in double, and evaluate_rows runs it over a batch.
template <class Divergence>
struct sequence_ratio_corrected {
  static_assert(!contains(Divergence::reads, field::old_logp),
                "rlcore: sequence_ratio_corrected holds a plain divergence like k3, not one that is corrected already");
  [[no_unique_address]] Divergence divergence;

  /// The divergence `d` times the ratio of its row.
  constexpr explicit sequence_ratio_corrected(Divergence d) : divergence(d) {}

  /// The live tokens of one row. Returns the sum of s v_t and overwrites `slope`; 0 for no tokens. Throws
  /// std::invalid_argument if lengths differ.
  template <class T>
  double operator()(std::span<const T> logp, std::span<const T> old_logp, std::span<const T> ref_logp,
                    std::span<T> slope) const {
    const std::size_t n = logp.size();
    if (old_logp.size() != n || ref_logp.size() != n || slope.size() != n)
      throw std::invalid_argument(
          "rlcore: logp is [" + std::to_string(n) + "], old_logp is [" + std::to_string(old_logp.size()) +
          "], ref_logp is [" + std::to_string(ref_logp.size()) + "], slope is [" + std::to_string(slope.size()) + "]");
    if (n == 0) return 0;
    double log_ratio = 0, sum = 0;
    for (std::size_t t = 0; t < n; ++t) {
      log_ratio += static_cast<double>(logp[t]) - static_cast<double>(old_logp[t]);
      sum += at(logp[t], ref_logp[t]).value;
    }
    const double ratio = elementary::exp(log_ratio / static_cast<double>(n)), mean = sum / static_cast<double>(n);
    for (std::size_t t = 0; t < n; ++t) slope[t] = static_cast<T>(ratio * (at(logp[t], ref_logp[t]).slope + mean));
    return ratio * sum;
  }

 private:
  template <class T>
  term<double> at(T logp, T ref_logp) const noexcept {
    token<double> t{};
    t.logp = static_cast<double>(logp), t.ref_logp = static_cast<double>(ref_logp);
    return divergence.template operator()<exact_math, double>(t);
  }
};

/// scaled{coefficient, sequence_ratio_corrected{k3{}}} over a batch: the report and the gradient that evaluate would
/// give for a piece of that value. Overwrites gradients.logp, so call it before the evaluate of the surrogate, and that
/// one with token_gradients::add. The result does not depend on the split into micro-batches.
template <class Divergence, class Aggregation, class T>
report<1, 0> evaluate_rows(const scaled<sequence_ratio_corrected<Divergence>>& kl, const Aggregation& aggregation,
                           const token_batch<T>& batch, const global_counts& step,
                           const std::type_identity_t<token_gradients<T>>& gradients = {}) {
  if (gradients.add)
    throw std::invalid_argument(
        "rlcore: evaluate_rows overwrites the gradient; call it first, and evaluate of the surrogate with add = true");
  const live_rows<T> rows(batch, Divergence::reads | field::logp | field::old_logp, "sequence_ratio_corrected");
  detail::row_source<T> out{};
  if (gradients.logp.present()) out = rows.target("logp", gradients.logp);
  report<1, 0> total;
  total.piece[0].name = Divergence::name, total.piece[0].coefficient = kl.scale;
  total.empty_step = step.tokens() == 0;
  live_row row;
  scratch_vector<double> slope;
  for (extent_t i = 0; i < rows.size(); ++i) {
    rows.read(i, row);
    slope.assign(row.size(), 0.0);
    total.rows += 1;
    const auto live = static_cast<std::int64_t>(row.size());
    const double weight = live > 0 ? aggregation.weight(row_info{live, i}, step) : 0.0;
    if (weight != 0) {
      const double sum = kl.node(row[field::logp], row[field::old_logp], row[field::ref_logp], std::span(slope));
      for (double& g : slope) g *= kl.scale * weight;
      total.piece[0].aggregated.add(weight * sum), total.piece[0].total.add(sum);
      total.tokens += live, total.units += live, total.sequences += 1;
    }
    if (gradients.logp.present()) rows.write(out, i, row, slope);
  }
  return total;
}

RLCORE_ALGORITHM_END
RLCORE_END
