// MoE router: top-k expert choice, weights and their gradient; on the host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/elementary.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

/// Rows of all ranks of an expert parallel group at this rank's experts: slot counts [ranks, experts] and the saved
/// activations of `rows` rows, device memory.
struct visitors {
  std::vector<std::int64_t> counts;
  extent_t rows = 0;
  float *x = nullptr, *gate_up = nullptr, *activated = nullptr;
};

/// Experts that rows go to instead of those that the router chooses (router replay; Ma et al. 2025, arXiv 2510.11370):
/// ids [rows, layers with experts, chosen], host memory, those of a row and layer in any order. A row and layer whose
/// first id is no_expert is routed by the model.
struct expert_choices {
  static constexpr std::int16_t no_expert = -1;

  const std::int16_t* ids = nullptr;   ///< null: all rows are routed by the model
  extent_t per_row = 0;                ///< layers with experts times chosen
  extent_t before = 0;                 ///< layers with experts in earlier stages of a pipeline
  std::int16_t* chosen_ids = nullptr;  ///< if not null, a forward writes here what was chosen, most likely first

  /// Those from row `first` on, to be read only.
  expert_choices from(extent_t first) const noexcept {
    return {ids ? ids + first * per_row : nullptr, per_row, before};
  }
  /// Where the ids of a row in layer `layer` of this stage's with experts begin.
  extent_t at(extent_t row, extent_t layer, extent_t chosen) const noexcept {
    return row * per_row + (before + layer) * chosen;
  }
  /// Those ids; null: the model routes the row.
  const std::int16_t* of(extent_t row, extent_t layer, extent_t chosen) const noexcept {
    const std::int16_t* const first = ids ? ids + at(row, layer, chosen) : nullptr;
    return first && *first != no_expert ? first : nullptr;
  }
};

/// Are these different ids of 0 .. experts - 1?
template <class Id>
bool are_different(std::span<const Id> ids, std::int64_t experts) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto before = ids.first(i);
    if (ids[i] < 0 || ids[i] >= experts || std::ranges::find(before, ids[i]) != before.end()) return false;
  }
  return true;
}

/// From p = softmax(logits) over all experts in float32, chooses the `chosen` most likely experts, ties by the lower id
/// (`transformers` leaves their order to torch.topk); their weights are p, or with `renormalise` p over the sum of the
/// chosen p. A slot is one row at one of its experts; slots are sorted by expert, then row, so the experts of one row
/// are visited in the order of their ids. Replayed choices take the place of the most likely experts: their p, weights
/// and gradients are those of a router that chose them.
struct routing {
  extent_t rows = 0, experts = 0, chosen = 0;
  bool renormalise = false;
  std::vector<float> probability;        ///< [rows, experts], holds the logits on entry to route()
  std::vector<std::int32_t> expert;      ///< [rows, chosen], most likely first
  std::vector<float> weight;             ///< [rows, chosen]
  std::vector<extent_t> begin;           ///< [experts + 1]: slots of expert e are begin[e] .. begin[e + 1]
  std::vector<std::int32_t> row, place;  ///< [slots]: the slot's row, and its place in `expert`
  std::vector<float> factor;             ///< [slots]: its weight

  visitors visit;

  extent_t slots() const noexcept { return rows * chosen; }

  /// Allocates `probability` for the logits of `count` rows.
  void resize(extent_t count, extent_t of_experts, extent_t choices) {
    rows = count, experts = of_experts, chosen = choices;
    probability.resize(static_cast<std::size_t>(rows * experts));
  }
  /// Chooses the experts of every row, or takes those of `choices` in layer `layer`, and fills the lists.
  void route(const expert_choices& choices = {}, extent_t layer = 0);

  /// The slots of expert e that belong to rows [first, first + count).
  std::pair<extent_t, extent_t> slots_of(extent_t e, extent_t first, extent_t count) const;

  /// dlogits [count, experts] of rows [first, first + count) from dweight [rows, chosen] and, unless empty, balance
  /// [experts], the load-balancing gradient of every row's p.
  void backward(std::span<float> dlogits, std::span<const float> dweight, std::span<const float> balance,
                extent_t first, extent_t count) const;

 private:
  void choose(extent_t t, const std::int16_t* replayed);

  std::vector<extent_t> next_;
};

}  // namespace nn
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_NN)
RLCORE_BEGIN
namespace nn {

RLCORE_INLINE void routing::route(const expert_choices& choices, extent_t layer) {
  expert.resize(static_cast<std::size_t>(slots()));
  weight.resize(expert.size());
  begin.assign(static_cast<std::size_t>(experts + 1), 0);
  for (extent_t t = 0; t < rows; ++t) choose(t, choices.of(t, layer, chosen));
  for (extent_t t = 0; t < rows && choices.chosen_ids; ++t)
    std::copy_n(expert.begin() + t * chosen, chosen, choices.chosen_ids + choices.at(t, layer, chosen));
  for (std::size_t e = 1; e < begin.size(); ++e) begin[e] += begin[e - 1];
  row.resize(expert.size()), place.resize(expert.size()), factor.resize(expert.size());
  next_.assign(begin.begin(), begin.end() - 1);
  for (std::size_t i = 0; i < expert.size(); ++i) {
    const auto slot = static_cast<std::size_t>(next_[static_cast<std::size_t>(expert[i])]++);
    row[slot] = static_cast<std::int32_t>(static_cast<extent_t>(i) / chosen);
    place[slot] = static_cast<std::int32_t>(i);
    factor[slot] = weight[i];
  }
}

RLCORE_INLINE std::pair<extent_t, extent_t> routing::slots_of(extent_t e, extent_t first, extent_t count) const {
  const auto from = row.begin() + begin[static_cast<std::size_t>(e)],
             to = row.begin() + begin[static_cast<std::size_t>(e + 1)];
  const auto lower = std::lower_bound(from, to, static_cast<std::int32_t>(first));
  return {lower - row.begin(), std::lower_bound(lower, to, static_cast<std::int32_t>(first + count)) - row.begin()};
}

RLCORE_INLINE void routing::backward(std::span<float> dlogits, std::span<const float> dweight,
                                     std::span<const float> balance, extent_t first, extent_t count) const {
  const auto n = static_cast<std::size_t>(experts), k = static_cast<std::size_t>(chosen);
  for (extent_t t = 0; t < count; ++t) {
    const auto r = static_cast<std::size_t>(first + t);
    const float *p = probability.data() + r * n, *w = weight.data() + r * k, *dw = dweight.data() + r * k;
    const std::int32_t* ids = expert.data() + r * k;
    float* slope = dlogits.data() + static_cast<std::size_t>(t) * n;
    double mean = 0, share = 0, total = 0;  // sum of p dp; sum of w dw; sum of the chosen p
    for (std::size_t j = 0; j < k && renormalise; ++j) {
      share += double{w[j]} * double{dw[j]};
      total += double{p[ids[j]]};
    }
    std::fill_n(slope, n, 0.0f);
    for (std::size_t e = 0; e < balance.size(); ++e) {
      slope[e] = balance[e];
      mean += double{p[e]} * double{balance[e]};
    }
    for (std::size_t j = 0; j < k; ++j) {
      const double dp = renormalise ? (double{dw[j]} - share) / total : double{dw[j]};
      slope[ids[j]] = static_cast<float>(double{slope[ids[j]]} + dp);
      mean += double{p[ids[j]]} * dp;
    }
    for (std::size_t e = 0; e < n; ++e) slope[e] = static_cast<float>(double{p[e]} * (double{slope[e]} - mean));
  }
}

RLCORE_INLINE void routing::choose(extent_t t, const std::int16_t* replayed) {
  const auto n = static_cast<std::size_t>(experts), k = static_cast<std::size_t>(chosen);
  const auto r = static_cast<std::size_t>(t);
  float *p = probability.data() + r * n, *w = weight.data() + r * k;
  std::int32_t* ids = expert.data() + r * k;
  const float top = *std::max_element(p, p + n);
  double total = 0;
  for (std::size_t e = 0; e < n; ++e) total += double{p[e] = elementary::exp(p[e] - top)};
  for (std::size_t e = 0; e < n; ++e) p[e] = static_cast<float>(double{p[e]} / total);
  std::size_t held = 0;
  const auto insert = [&](std::int32_t e) {  // sorted by p, ties by id
    if (held == k && !(p[e] > p[ids[k - 1]])) return;
    std::size_t j = held < k ? held++ : k - 1;
    for (; j > 0 && (p[e] > p[ids[j - 1]] || (p[e] == p[ids[j - 1]] && e < ids[j - 1])); --j) ids[j] = ids[j - 1];
    ids[j] = e;
  };
  for (std::size_t e = 0; e < (replayed ? k : n); ++e) insert(replayed ? replayed[e] : static_cast<std::int32_t>(e));
  double sum = 0;
  for (std::size_t j = 0; j < k; ++j) {
    sum += double{p[ids[j]]};
    ++begin[static_cast<std::size_t>(ids[j]) + 1];
  }
  for (std::size_t j = 0; j < k; ++j) w[j] = renormalise ? static_cast<float>(double{p[ids[j]]} / sum) : p[ids[j]];
}

}  // namespace nn
RLCORE_END
#endif
