// Log-prob of the label, entropy and sum of squares from logits, forward and backward.
#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>

#include "rlcore/core/elementary.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/loop/detail/logits.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Which distribution the logits stand for: softmax(s tanh(logits / s) / temperature). It must be the one that was
/// sampled from, so the temperature is always written out; entropy and log-probs cannot have different ones. With a
/// logits_batch::support (what top-k or top-p left), the softmax is over those entries alone.
struct sampling_scale {
  double temperature;
  double softcap = 0;  ///< 0: none
  /// The temperature `t`, and a soft cap of the logits before it.
  constexpr explicit sampling_scale(double t, double cap = 0) : temperature(t), softcap(cap) {}
};

/// One value per position; any of them may be absent. T is const for gradients that come from a token objective.
template <class T>
struct label_statistics {
  position_matrix<T> logp{};            ///< log p_y
  position_matrix<T> entropy{};         ///< -sum p log p
  position_matrix<T> sum_of_squares{};  ///< sum p^2
};

namespace logits_loop {

/// lse, entropy and sum of squares of one position, over the vocabulary or over its support.
template <class T>
struct distribution {
  logits_source<T> z;
  entry_list support;
  bool restricted = false;
  normalizer<T> n;
  double entropy = 0, squares = 0;

  /// f(pack of logits) over everything that has a probability.
  template <class F>
  RLCORE_FN void each(const F& f) const noexcept {
    if (!restricted) {
      for (extent_t j = 0; j < z.size; j += z.lanes) f(z.load(j));
    } else {
      for (extent_t k = 0; k < support.size; k += z.lanes) {
        pack<T> p(-std::numeric_limits<T>::infinity());
        for (extent_t q = 0; q < z.lanes && k + q < support.size; ++q)
          p.v[q] = z.load(static_cast<extent_t>(support[k + q])).v[0];
        f(p);
      }
    }
  }
  void normalize_it() noexcept {
    pack<T> most(-std::numeric_limits<T>::infinity());
    each([&](pack<T> v) { most = fast_math::max(most, v); });
    n.max = most.v[0];
    for (std::size_t k = 1; k < pack<T>::lanes; ++k) n.max = most.v[k] > n.max ? most.v[k] : n.max;
    wide_sum<T> sum;
    each([&](pack<T> v) { sum.add(fast_math::exp(v - pack<T>(n.max))); });
    n.log_sum = elementary::log(sum.total());
  }
  void add_up() noexcept {
    wide_sum<T> plogp, pp;
    each([&](pack<T> v) {
      const pack<T> logp = n.logp(v), p = fast_math::exp(logp);
      plogp.add(times<fast_math>(p, logp));
      pp.add(p * p);
    });
    entropy = -plogp.total(), squares = pp.total();
  }
};

/// The i-th entry's distribution, with its normalizer; add_up() makes entropy and squares.
template <class T>
distribution<T> distribution_of(const prepared_logits<T>& p, extent_t i, const sampling_scale& scale) noexcept {
  const logits_batch<T>& b = *p.batch;
  distribution<T> d;
  d.z = {b.logits.row(p.position(i)), b.logits.shape[1], b.logits.stride[1], static_cast<T>(scale.temperature),
         static_cast<T>(scale.softcap)};
  d.restricted = b.support.present();
  if (d.restricted) d.support = p.support(i);
  d.normalize_it();
  return d;
}

/// Whether `label` is among the entries that have a probability.
template <class T>
bool has_entry(const distribution<T>& d, std::int64_t label) noexcept {
  if (!d.restricted) return true;
  for (extent_t k = 0; k < d.support.size; ++k)
    if (d.support[k] == label) return true;
  return false;
}

/// Checks batch and scale, and the sizes of the statistics that are present. Throws std::invalid_argument if they do
/// not fit.
template <class T, class U>
prepared_logits<T> prepare_statistics(const logits_batch<T>& b, const sampling_scale& scale,
                                      const label_statistics<U>& s) {
  if (!(scale.temperature > 0) || !(scale.softcap >= 0))
    throw std::invalid_argument("rlcore: log_probs: temperature " + std::to_string(scale.temperature) +
                                " and softcap " + std::to_string(scale.softcap) + ", expected above 0 and at least 0");
  logits_shape wanted;
  if (s.logp.present()) wanted.reads = wanted.reads | logits_field::label;
  if (b.support.present()) wanted.reads = wanted.reads | logits_field::support;
  const auto p = prepare(b, wanted);
  const auto fits = [&](const char* name, const position_matrix<U>& m) {
    if (m.present()) expect_entries(name, m.shape[0], p.entries, b.positions.present());
  };
  fits("log-probs", s.logp), fits("entropies", s.entropy), fits("sums of squares", s.sum_of_squares);
  return p;
}

}  // namespace logits_loop

/// Writes log p_y, the entropy and sum p^2 of every position of the batch, 0 where the mask is 0; the label has
/// log-prob -inf if it is not in the support. Logits of -inf are entries that do not exist. Sums are in double; the
/// same bits for any split and executor. Throws std::invalid_argument as evaluate_logits does. Allocates nothing.
template <executor Executor, class T>
void log_probs(const Executor& exec, const logits_batch<T>& batch, sampling_scale scale,
               const std::type_identity_t<label_statistics<T>>& out) {
  const auto p = logits_loop::prepare_statistics(batch, scale, out);
  exec.for_each(static_cast<std::size_t>(p.entries), [&](std::size_t index) {
    const extent_t i = static_cast<extent_t>(index);
    const auto put = [&](const position_matrix<T>& to, double value) {
      if (to.present()) *to.row(i) = static_cast<T>(value);
    };
    if (!p.live(i)) return put(out.logp, 0), put(out.entropy, 0), put(out.sum_of_squares, 0);
    auto d = logits_loop::distribution_of(p, i, scale);
    if (out.logp.present())
      put(out.logp, logits_loop::has_entry(d, batch.labels[i]) ? d.n.logp(d.z[static_cast<extent_t>(batch.labels[i])])
                                                               : -std::numeric_limits<double>::infinity());
    if (!out.entropy.present() && !out.sum_of_squares.present()) return;
    d.add_up();
    put(out.entropy, d.entropy), put(out.sum_of_squares, d.squares);
  });
}

/// The transpose of log_probs: from `upstream`, the gradients of a loss by logp, entropy and sum of squares (those
/// given count), to its gradient by the logits:
///   (gl ([j = y] - p_j) - gH p_j (log p_j + H) + 2 gS p_j (p_j - sum p^2)) / temperature (1 - tanh^2).
/// Positions that do not count get 0, or with `add` keep their values.
template <executor Executor, class T>
void log_probs_backward(const Executor& exec, const logits_batch<T>& batch, sampling_scale scale,
                        const std::type_identity_t<label_statistics<const T>>& upstream,
                        const std::type_identity_t<logits_gradients<T>>& gradients) {
  const auto p = logits_loop::prepare_statistics(batch, scale, upstream);
  const position_matrix<T>& to = gradients.logits;
  if (to.vector || to.shape != batch.logits.shape)
    throw std::invalid_argument("rlcore: the gradient by logits is " + to_string<2>(to.shape) + ", the logits are " +
                                to_string<2>(batch.logits.shape));
  const auto zero = [&](extent_t begin, extent_t end) {
    if (gradients.add) return;
    for (extent_t at = begin; at < end; ++at)
      for (extent_t j = 0; j < to.shape[1]; ++j) to.row(at)[j * to.stride[1]] = T(0);
  };
  exec.for_each(static_cast<std::size_t>(p.entries), [&](std::size_t index) {
    const extent_t i = static_cast<extent_t>(index), at = p.position(i);
    zero(i == 0 ? 0 : p.position(i - 1) + 1, p.live(i) ? at : at + 1);
    if (i + 1 == p.entries) zero(at + 1, to.shape[0]);
    if (!p.live(i)) return;
    const auto get = [&](const position_matrix<const T>& m) {
      return m.present() ? static_cast<double>(*m.row(i)) : 0.0;
    };
    const double gl = get(upstream.logp), gh = get(upstream.entropy), gs = get(upstream.sum_of_squares);
    auto d = logits_loop::distribution_of(p, i, scale);
    if (gh != 0 || gs != 0) d.add_up();
    const logits_source<T> source = d.z;
    const logits_gradient<T> g{to.row(at),    to.shape[1],
                               to.stride[1],  static_cast<T>(1 / scale.temperature),
                               gradients.add, source.softcap != T(0) ? &source : nullptr};
    const pack<T> minus_gl(static_cast<T>(-gl)), minus_gh(static_cast<T>(-gh)), h(static_cast<T>(d.entropy)),
        two_gs(static_cast<T>(2 * gs)), squares(static_cast<T>(d.squares));
    const auto slope = [&](pack<T> v) RLCORE_LAMBDA {
      const pack<T> logp = d.n.logp(v), probability = fast_math::exp(logp);
      pack<T> s = minus_gl * probability;
      if (gh != 0) s += minus_gh * (times<fast_math>(probability, logp) + probability * h);
      if (gs != 0) s += two_gs * (probability * (probability - squares));
      return s;
    };
    if (d.restricted) {
      if (!gradients.add) g.fill(T(0));
      for (extent_t k = 0; k < d.support.size; ++k) {
        const extent_t j = static_cast<extent_t>(d.support[k]);
        g.add_at(j, static_cast<double>(slope(d.z.load(j)).v[0]));
      }
    } else {
      for (extent_t j = 0; j < d.z.size; j += d.z.lanes) g.write(j, slope(d.z.load(j)));
    }
    if (gl != 0 && logits_loop::has_entry(d, batch.labels[i])) g.add_at(static_cast<extent_t>(batch.labels[i]), gl);
  });
  if (p.entries == 0) zero(0, to.shape[0]);
}

RLCORE_ALGORITHM_END
RLCORE_END
