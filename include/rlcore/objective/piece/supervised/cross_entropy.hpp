// Cross-entropy of labels against vectors of logits.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/objective/vocabulary/logits_piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// What a smoothed label is mixed with.
enum class smoothing_over : std::uint8_t {
  all,     ///< the uniform distribution over all K entries: the label keeps 1 - a + a / K (PyTorch, Liger)
  others,  ///< over the K - 1 others: the label keeps 1 - a (Megatron's formula, a K / (K - 1) of the above)
};

/// (1 - a)(lse - z_y) + a (lse - mean z) + z_loss lse^2 with a = label_smoothing; the negative log-likelihood by
/// default. gradient: (1 + 2 z_loss lse) p_j - (1 - a) [j = y] - a / K. Entries of logit -inf do not exist: they are
/// not among the K (PyTorch's smoothed loss is infinite there). Soft cap and temperature: softcapped{s, ...},
/// tempered{t, ...}. Monitors: share of labels that have the largest logit, and the plain negative log-likelihood.
struct cross_entropy {
  static constexpr logits_field reads = logits_field::label;
  static constexpr std::string_view name = "cross_entropy";
  static constexpr std::array<std::string_view, 2> monitors{"accuracy", "negative_log_likelihood"};
  double label_smoothing = 0.0;
  smoothing_over smoothing = smoothing_over::all;
  double z_loss = 0.0;

  /// Throws std::invalid_argument unless label_smoothing is in [0, 1).
  void check(extent_t) const {
    if (!(label_smoothing >= 0 && label_smoothing < 1))
      throw std::invalid_argument("rlcore: cross_entropy: label_smoothing is " + std::to_string(label_smoothing) +
                                  ", expected 0 <= a < 1");
  }

  template <class T>
  logits_term<2> operator()(const logits_position<T>& x, const logits_gradient<T>& g) const noexcept {
    const logits_source<T>& z = x.logits;
    const normalizer<T> n = normalize(z);
    const double lse = n.value(), chosen = z[x.label], nll = -n.logp(chosen);
    logits_term<2> out{nll, {chosen >= static_cast<double>(n.max) ? 1.0 : 0.0, nll}};
    double a = 0, share = 0;  // share of the smoothing that every existing entry gets
    if (label_smoothing > 0) {
      const pack<T> none(-std::numeric_limits<T>::infinity()), zero(T(0));
      wide_sum<T> sum, count;
      for (extent_t j = 0; j < z.size; j += z.lanes) {
        const pack<T> v = z.load(j);
        sum.add(fast_math::select(v == none, zero, v - pack<T>(n.max)));
        count.add(fast_math::select(v == none, zero, pack<T>(T(1))));
      }
      const double entries = count.total();
      a = smoothing == smoothing_over::all || entries < 2 ? label_smoothing : label_smoothing * entries / (entries - 1);
      share = a / entries;
      out.value = (1 - a) * nll + a * (n.log_sum - sum.total() / entries);
    }
    out.value += z_loss * lse * lse;
    if (g.wanted()) {
      const pack<T> factor(static_cast<T>(1 + 2 * z_loss * lse)), each(static_cast<T>(share));
      for (extent_t j = 0; j < z.size; j += z.lanes) {
        const pack<T> v = z.load(j), p = factor * fast_math::exp(n.logp(v));
        g.write(j, share == 0 ? p : fast_math::select(v == -std::numeric_limits<T>::infinity(), p, p - each));
      }
      g.add_at(x.label, -(1 - a));
    }
    return out;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
