// Load-balancing loss of a mixture of experts over all tokens of an optimizer step.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/nn/moe/routing.hpp"

RLCORE_BEGIN
namespace nn {

/// Routing counts for the loss. Integers, so that counts of micro-batches, leaves and ranks can be added in any order
/// with the same bits. Probabilities are in units of 2^-32.
struct router_counts {
  /// [1 + 2 experts]: rows (tokens times layers with experts), choices per expert, sums of p per expert.
  std::vector<std::int64_t> values;

  std::size_t experts() const noexcept { return values.size() / 2; }
  std::int64_t rows() const noexcept { return values.empty() ? 0 : values[0]; }
  /// The number of rows that chose expert e.
  std::int64_t chosen(std::size_t e) const { return values[1 + e]; }
  /// The sum over rows of expert e's probability.
  double probability(std::size_t e) const { return static_cast<double>(values[1 + experts() + e]) * 0x1p-32; }

  /// Zeros for this many experts.
  void reset(std::size_t of_experts) { values.assign(1 + 2 * of_experts, 0); }
  /// Adds the rows of one layer; a probability above 1 or NaN adds nothing.
  void add(const routing& r);
  /// Counts of the same model, or none.
  router_counts& operator+=(const router_counts& other) {
    if (values.size() < other.values.size()) values.resize(other.values.size());
    for (std::size_t i = 0; i < other.values.size(); ++i) values[i] += other.values[i];
    return *this;
  }
};

/// experts * sum over experts of f P, f the share of rows that chose the expert (the f sum to the number of experts per
/// token) and P the mean of its probability (Fedus et al. 2021, eq. 4 to 6; `load_balancing_loss_func` of
/// transformers). 0 without rows.
double load_balancing_loss(const router_counts& c);

/// The gradient of coefficient * loss in the probability of each expert, the same for every row; f is a constant.
std::vector<float> load_balancing_slopes(const router_counts& c, double coefficient);

}  // namespace nn
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_NN)
RLCORE_BEGIN
namespace nn {

RLCORE_INLINE void router_counts::add(const routing& r) {
  const auto n = static_cast<std::size_t>(r.experts);
  values[0] += r.rows;
  for (std::size_t e = 0; e < n; ++e) values[1 + e] += r.begin[e + 1] - r.begin[e];
  for (std::size_t i = 0; i < r.probability.size(); ++i)
    if (const double p = double{r.probability[i]}; p <= 1) values[1 + n + i % n] += std::llrint(p * 0x1p32);
}

RLCORE_INLINE double load_balancing_loss(const router_counts& c) {
  if (c.rows() == 0) return 0;
  const auto rows = static_cast<double>(c.rows());
  double sum = 0;
  for (std::size_t e = 0; e < c.experts(); ++e)
    sum += static_cast<double>(c.chosen(e)) / rows * (c.probability(e) / rows);
  return static_cast<double>(c.experts()) * sum;
}

RLCORE_INLINE std::vector<float> load_balancing_slopes(const router_counts& c, double coefficient) {
  std::vector<float> slopes(c.experts(), 0.0f);
  const auto rows = static_cast<double>(c.rows());
  for (std::size_t e = 0; e < slopes.size() && c.rows() > 0; ++e)
    slopes[e] = static_cast<float>(coefficient * static_cast<double>(c.experts()) *
                                   (static_cast<double>(c.chosen(e)) / rows) / rows);
  return slopes;
}

}  // namespace nn
RLCORE_END
#endif
