// Cross-entropy in which every entry of the vocabulary has a weight of its own.
#pragma once

#include <array>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/objective/vocabulary/logits_piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// -sum_j c_j log p_j with c_j = (1 - a) weight_y [j = y] + a weight_j / V (torch.nn.CrossEntropyLoss(weight,
/// label_smoothing)). gradient: p_j sum c - c_j. The aggregation divides by positions as ever; PyTorch's "mean" divides
/// by the sum of weight_y instead, which is scaled{positions / sum, ...} here. `weight` has one value per entry and is
/// not copied. Monitor: share of labels that have the largest logit.
struct class_weighted_cross_entropy {
  static constexpr logits_field reads = logits_field::label;
  static constexpr std::string_view name = "cross_entropy";
  static constexpr std::array<std::string_view, 1> monitors{"accuracy"};
  std::span<const double> weight;
  double label_smoothing = 0.0;

  /// Throws std::invalid_argument unless there is a weight per entry and label_smoothing is in [0, 1).
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
