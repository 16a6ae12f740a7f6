// Load balancing: sequence costs, and Karmarkar-Karp partitioning of sequences into parts of equal cost.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

/// One layer of a transformer with attention over `heads` query heads and `kv_heads` key and value heads, and a gated
/// feed-forward of `intermediate`. It is dense (experts 0) or a mixture of `experts` of that size; each token uses
/// `experts_per_token`.
struct layer_sizes {
  std::int64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, intermediate = 0, experts = 0, experts_per_token = 0;
};

/// Active weights per token and layer: H (nq + 2 nkv) d + nq d H, and 3 H I, or 3 H I K + H E with experts.
double active_weights(const layer_sizes& s) noexcept;

/// The length at which causal attention (2 nq d s^2 operations per layer, forward) costs as much as the linear layers
/// (2 s per active weight): active weights / (nq d). 16.6k tokens for Qwen2.5-0.5B, 65k for 7B, 13.9k for
/// Qwen3-30B-A3B.
inline double cost_constant(const layer_sizes& s) noexcept {
  return active_weights(s) / static_cast<double>(s.heads * s.head_dim);
}

/// The work of a sequence of s = `length` tokens, up to a common factor: constant * s + s^2.
inline double sequence_cost(double constant, std::int64_t length) noexcept {
  const auto s = static_cast<double>(length);
  return constant * s + s * s;
}

namespace detail {

/// The sets of a partial solution, heaviest first. Empty sets are not stored.
struct partial_balance {
  struct set {
    double sum = 0;
    std::uint32_t first = 0, last = 0;  ///< ends of a linked list of items
  };
  std::vector<set> sets;
  double spread = 0;  ///< heaviest - lightest
  std::size_t number = 0;

  void arrange(std::size_t parts) {
    std::sort(sets.begin(), sets.end(),
              [](const set& a, const set& b) { return a.sum != b.sum ? a.sum > b.sum : a.first < b.first; });
    spread = sets.front().sum - (sets.size() == parts ? sets.back().sum : 0);
  }

  /// Joins the heaviest set of one solution with the lightest set of the other by linking their `next` lists.
  void join(const partial_balance& other, std::size_t parts, std::vector<std::uint32_t>& next);
};

/// Heap order: largest spread first, ties by the smaller index.
struct spread_less {
  bool operator()(const partial_balance& a, const partial_balance& b) const noexcept {
    return a.spread != b.spread ? a.spread < b.spread : a.number > b.number;
  }
};

/// The initial partial solutions: items by descending cost, `together` per solution, one per set.
std::vector<partial_balance> first_balances(std::span<const double> cost, std::size_t parts, std::size_t together);

/// Largest differencing: merges the two solutions with the largest spreads until one is left.
partial_balance join_all(std::vector<partial_balance> solutions, std::size_t parts, std::vector<std::uint32_t>& next);

}  // namespace detail

/// Splits items 0 .. cost.size() - 1 into `parts` parts with nearly equal total cost: largest differencing with `parts`
/// sets (Karmarkar and Karp 1982; Korf 1998). With `equal_counts` the numbers of items differ by at most one. The
/// result depends only on the arguments; equal costs are ordered by index. Items ascend inside a part, parts ascend by
/// their first item, and empty parts come last. Throws std::invalid_argument for zero parts and for negative or
/// non-finite costs.
std::vector<std::vector<std::uint32_t>> balance(std::span<const double> cost, std::size_t parts,
                                                bool equal_counts = false);

}  // namespace parallel
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PARALLEL)
RLCORE_BEGIN
namespace parallel {

RLCORE_INLINE double active_weights(const layer_sizes& s) noexcept {
  const auto f = [](std::int64_t n) { return static_cast<double>(n); };
  const double h = f(s.hidden), attention = h * f((2 * s.heads + 2 * s.kv_heads) * s.head_dim);
  const double expert = 3 * h * f(s.intermediate);
  return attention + (s.experts == 0 ? expert : f(s.experts_per_token) * expert + h * f(s.experts));
}

}  // namespace parallel

namespace parallel::detail {

RLCORE_INLINE void partial_balance::join(const partial_balance& other, std::size_t parts,
                                         std::vector<std::uint32_t>& next) {
  const std::size_t own_sets = sets.size();
  for (std::size_t k = 0; k < other.sets.size(); ++k) {
    const std::size_t partner = parts - 1 - k;
    if (partner >= own_sets) {
      sets.push_back(other.sets[k]);
      continue;
    }
    set& mine = sets[partner];
    next[mine.last] = other.sets[k].first;
    mine.last = other.sets[k].last;
    mine.sum += other.sets[k].sum;
  }
  number = std::min(number, other.number);
  arrange(parts);
}

RLCORE_INLINE std::vector<partial_balance> first_balances(std::span<const double> cost, std::size_t parts,
                                                          std::size_t together) {
  std::vector<std::uint32_t> order(cost.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return cost[a] != cost[b] ? cost[a] > cost[b] : a < b; });
  std::vector<partial_balance> solutions;
  for (std::size_t i = 0; i < order.size(); i += together) {
    partial_balance s;
    for (std::size_t k = i; k < std::min(order.size(), i + together); ++k)
      s.sets.push_back({cost[order[k]], order[k], order[k]});
    s.number = solutions.size();
    s.arrange(parts);
    solutions.push_back(std::move(s));
  }
  return solutions;
}

RLCORE_INLINE partial_balance join_all(std::vector<partial_balance> solutions, std::size_t parts,
                                       std::vector<std::uint32_t>& next) {
  std::make_heap(solutions.begin(), solutions.end(), spread_less{});
  const auto take = [&] {
    std::pop_heap(solutions.begin(), solutions.end(), spread_less{});
    partial_balance s = std::move(solutions.back());
    solutions.pop_back();
    return s;
  };
  while (solutions.size() > 1) {
    partial_balance a = take();
    a.join(take(), parts, next);
    solutions.push_back(std::move(a));
    std::push_heap(solutions.begin(), solutions.end(), spread_less{});
  }
  return std::move(solutions.front());
}

}  // namespace parallel::detail

namespace parallel {

RLCORE_INLINE std::vector<std::vector<std::uint32_t>> balance(std::span<const double> cost, std::size_t parts,
                                                              bool equal_counts) {
  if (parts == 0) throw std::invalid_argument("rlcore: balance: 0 parts, expected 1 or more");
  for (std::size_t i = 0; i < cost.size(); ++i)
    if (!(cost[i] >= 0 && cost[i] <= 1e300))
      throw std::invalid_argument("rlcore: balance: cost " + std::to_string(cost[i]) + " of item " + std::to_string(i) +
                                  ", expected a finite number >= 0");
  std::vector<std::vector<std::uint32_t>> out(parts);
  if (cost.empty()) return out;

  std::vector<std::uint32_t> next(cost.size());
  std::iota(next.begin(), next.end(), 0u);                // an item that links to itself ends a list
  const std::size_t together = equal_counts ? parts : 1;  // a solution of `parts` items gives one to each part
  const detail::partial_balance solution = detail::join_all(detail::first_balances(cost, parts, together), parts, next);
  for (std::size_t p = 0; p < solution.sets.size(); ++p) {
    for (std::uint32_t i = solution.sets[p].first;; i = next[i]) {
      out[p].push_back(i);
      if (next[i] == i) break;
    }
    std::sort(out[p].begin(), out[p].end());
  }
  std::sort(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(solution.sets.size()),
            [](const auto& a, const auto& b) { return a.front() < b.front(); });
  return out;
}

}  // namespace parallel
RLCORE_END
#endif
