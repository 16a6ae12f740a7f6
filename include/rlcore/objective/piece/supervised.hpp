// Losses of given tokens and labels: NLL, cross-entropy, DFT.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/vocabulary/logits_piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// -logp with slope -1: supervised fine-tuning, and the companion of preference losses on their chosen rows (CPO, RPO,
/// ORPO, TPO's gold answers), as a second call of evaluate with token_gradients::add.
struct negative_log_likelihood {
  static constexpr field reads = field::logp;
  static constexpr std::string_view name = "negative_log_likelihood";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {-t.logp, V(-1)};
  }
};

/// -sg(e^logp) logp: cross-entropy with each token weighted by the model's probability of it (Wu et al. 2025, "On the
/// Generalization of SFT"; TRL loss_type "dft"; Liger token scaling). slope: -e^logp.
struct dft {
  static constexpr field reads = field::logp;
  static constexpr std::string_view name = "dft";
  static constexpr bool stops_gradient = true;

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V p = Math::exp(t.logp);
    return {-Math::select(p == V(0), p, p * t.logp), -p};
  }
};

/// The distribution that label smoothing mixes with the label.
enum class smoothing_over : std::uint8_t {
  all,     ///< the uniform distribution over all K entries: the label keeps 1 - a + a / K (PyTorch, Liger)
  others,  ///< over the K - 1 others: the label keeps 1 - a (Megatron's formula, a K / (K - 1) of the above)
};

/// (1 - a)(lse - z_y) + a (lse - mean z) + z_loss lse^2 with a = label_smoothing; the negative log-likelihood by
/// default. gradient: (1 + 2 z_loss lse) p_j - (1 - a) [j = y] - a / K. Entries of logit -inf do not exist: they are
/// not among the K (PyTorch's smoothed loss is then infinite). Soft cap and temperature: softcapped{s, ...},
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

/// -sum_j c_j log p_j with c_j = (1 - a) weight_y [j = y] + a weight_j / V (torch.nn.CrossEntropyLoss(weight,
/// label_smoothing)). gradient: p_j sum c - c_j. The aggregation divides by positions as usual; PyTorch's "mean"
/// divides by the sum of weight_y instead, which is scaled{positions / sum, ...} here. `weight` has one value per entry
/// and is not copied. Monitor: share of labels that have the largest logit.
struct class_weighted_cross_entropy {
  static constexpr logits_field reads = logits_field::label;
  static constexpr std::string_view name = "cross_entropy";
  static constexpr std::array<std::string_view, 1> monitors{"accuracy"};
  std::span<const double> weight;
  double label_smoothing = 0.0;

  /// Throws std::invalid_argument unless `weight` has one value per entry and label_smoothing is in [0, 1).
  void check(extent_t vocabulary) const {
    if (static_cast<extent_t>(weight.size()) != vocabulary)
      throw std::invalid_argument("rlcore: class weights are [" + std::to_string(weight.size()) +
                                  "], the vocabulary has " + std::to_string(vocabulary) + " entries");
    if (!(label_smoothing >= 0 && label_smoothing < 1))
      throw std::invalid_argument("rlcore: class_weighted_cross_entropy: label_smoothing is " +
                                  std::to_string(label_smoothing) + ", expected 0 <= a < 1");
  }

  template <class T>
  logits_term<1> operator()(const logits_position<T>& x, const logits_gradient<T>& g) const noexcept {
    const logits_source<T>& z = x.logits;
    const normalizer<T> n = normalize(z);
    const double chosen = z[x.label], spread = label_smoothing / static_cast<double>(z.size);
    const double of_label = (1 - label_smoothing) * weight[static_cast<std::size_t>(x.label)];
    logits_term<1> out{of_label == 0 ? 0.0 : -of_label * n.logp(chosen),
                       {chosen >= static_cast<double>(n.max) ? 1.0 : 0.0}};
    double total = of_label;
    if (spread != 0)
      for (extent_t j = 0; j < z.size; ++j) {
        const double c = spread * weight[static_cast<std::size_t>(j)];
        if (c != 0) out.value -= c * n.logp(z[j]);
        total += c;
      }
    if (g.wanted()) {
      const pack<T> sum(static_cast<T>(total));
      for (extent_t j = 0; j < z.size; j += z.lanes) {
        pack<T> slope = sum * fast_math::exp(n.logp(z.load(j)));
        if (spread != 0)
          for (extent_t k = 0; k < z.lanes && j + k < z.size; ++k)
            slope.v[k] -= static_cast<T>(spread * weight[static_cast<std::size_t>(j + k)]);
        g.write(j, slope);
      }
      g.add_at(x.label, -of_label);
    }
    return out;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
