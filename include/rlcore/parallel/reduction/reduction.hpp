// Deterministic all-reduce and reduce-scatter: all_to_all, then a local sum in a fixed order. Same bits on every
// engine, for every message size, and for every split of the data into calls.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/dtype.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"

RLCORE_BEGIN
namespace parallel {

/// ((x0 + x1) + x2) + ... in rank order. The bits depend on the number of ranks.
struct ranked {};

/// Pairwise summation: the binary tree in which the left part is the largest power of two. If every rank contributes
/// such a sum over the same power of two of consecutive leaves, the bits do not depend on the number of ranks, as long
/// as it is a power of two.
struct tree {};

/// An order of addition over ranks.
template <class O>
concept reduction_order = std::same_as<O, ranked> || std::same_as<O, tree>;

/// Reusable buffers of reductions, for frequent callers.
template <class Wire, class T = Wire>
struct reduction_scratch {
  std::vector<Wire> received;
  std::vector<T> rows;
  std::vector<std::size_t> sent_counts, received_counts;
};

RLCORE_ALGORITHM_BEGIN

/// Writes the sum over r of rows[r * n + i] to rows[i] and overwrites the rest.
template <class T>
void sum_rows(ranked, T* rows, std::size_t ranks, std::size_t n) {
  for (std::size_t r = 1; r < ranks; ++r)
    for (std::size_t i = 0; i < n; ++i) rows[i] += rows[r * n + i];
}
/// The same by pairwise summation.
template <class T>
void sum_rows(tree, T* rows, std::size_t ranks, std::size_t n) {
  for (std::size_t step = 1; step < ranks; step *= 2)
    for (std::size_t r = 0; r + step < ranks; r += 2 * step)
      for (std::size_t i = 0; i < n; ++i) rows[r * n + i] += rows[(r + step) * n + i];
}

/// Reduce-scatter: out[i] = sum over ranks of in[first + i], where part r has counts[r] elements, parts are in rank
/// order, and `first` is the start of this rank's part. The sum is formed in T: with bf16 on the wire and a float sum,
/// accuracy does not degrade with the number of ranks.
template <reduction_order Order, communicator C, wire Wire, class T>
void reduce_scatter_sum(Order order, C& c, std::span<const Wire> in, std::span<const std::size_t> counts,
                        std::span<T> out, reduction_scratch<Wire, T>& scratch) {
  const auto ranks = static_cast<std::size_t>(c.size());
  check_counts("reduce_scatter_sum", "in", counts, c.size(), in.size());
  check_size("reduce_scatter_sum", "out", out.size(), counts[static_cast<std::size_t>(c.rank())]);
  scratch.received_counts.assign(ranks, out.size());
  scratch.received.resize(ranks * out.size());
  c.all_to_all_v(in, counts, std::span<Wire>(scratch.received), std::span<const std::size_t>(scratch.received_counts));
  T* rows = nullptr;
  if constexpr (std::is_same_v<Wire, T>) {
    rows = scratch.received.data();
  } else {
    scratch.rows.resize(scratch.received.size());
    rows = scratch.rows.data();
    std::transform(scratch.received.begin(), scratch.received.end(), rows,
                   [](const Wire& x) { return static_cast<T>(x); });
  }
  sum_rows(order, rows, ranks, out.size());
  std::copy_n(rows, out.size(), out.begin());
}

/// All-reduce: x[i] = sum over all ranks of x[i], in place, with the same bits in all ranks. Integers are exact in any
/// order.
template <reduction_order Order, communicator C, wire T>
void all_reduce_sum(Order order, C& c, std::span<T> x, reduction_scratch<T>& scratch) {
  if (c.size() == 1) return;
  const auto ranks = static_cast<std::size_t>(c.size()), self = static_cast<std::size_t>(c.rank());
  const std::size_t part = (x.size() + ranks - 1) / ranks;
  scratch.sent_counts.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r)
    scratch.sent_counts[r] = std::min(x.size(), (r + 1) * part) - std::min(x.size(), r * part);
  const std::span<const std::size_t> counts(scratch.sent_counts);
  scratch.rows.resize(counts[self]);
  const std::span<T> mine(scratch.rows);
  reduce_scatter_sum(order, c, std::span<const T>(x), counts, mine, scratch);
  c.all_gather_v(std::span<const T>(mine), x, counts);
}

/// The same with temporary buffers.
template <reduction_order Order, communicator C, wire T>
void all_reduce_sum(Order order, C& c, std::span<T> x) {
  reduction_scratch<T> scratch;
  all_reduce_sum(order, c, x, scratch);
}
/// The same for one number.
template <reduction_order Order, communicator C, wire T>
T all_reduce_sum(Order order, C& c, T x) {
  all_reduce_sum(order, c, std::span<T>(&x, 1));
  return x;
}

RLCORE_ALGORITHM_END

/// Reusable buffers of an exchange.
struct exchange_scratch {
  std::vector<std::size_t> sent, received;
  std::vector<float> floats;
  std::vector<bf16> halves, sent_halves;
  std::vector<std::int64_t> fixed;

  template <class T>
  std::vector<T>& of() {
    if constexpr (std::is_same_v<T, float>)
      return floats;
    else if constexpr (std::is_same_v<T, bf16>)
      return halves;
    else
      return fixed;
  }
};

/// Rank r owns counts[r] values of `mine`, parts in rank order. `mine` is null if this rank sends nothing; `sends(r)`
/// says whether rank r sends. Calls push(rank, const T*) with each rank's values of this rank's part, in rank order.
template <class T, class Sends, class Push>
void exchange(any_communicator& c, const T* mine, std::span<const std::size_t> counts, exchange_scratch& scratch,
              Sends&& sends, Push&& push) {
  const auto self = static_cast<std::size_t>(c.rank()), local_count = counts[self];
  if (c.size() == 1) {
    if (mine) push(std::size_t{0}, mine);
    return;
  }
  scratch.sent.assign(counts.size(), 0), scratch.received.assign(counts.size(), 0);
  if (mine) scratch.sent.assign(counts.begin(), counts.end());
  for (std::size_t r = 0; r < counts.size(); ++r)
    if (sends(r)) scratch.received[r] = local_count;
  const auto total = [](const std::vector<std::size_t>& v) {
    return std::accumulate(v.begin(), v.end(), std::size_t{0});
  };
  std::vector<T>& in = scratch.of<T>();
  in.resize(total(scratch.received));
  c.all_to_all_v(std::span<const T>(mine, total(scratch.sent)), std::span<const std::size_t>(scratch.sent),
                 std::span<T>(in), std::span<const std::size_t>(scratch.received));
  const T* at = in.data();
  for (std::size_t r = 0; r < counts.size(); ++r)
    if (sends(r)) push(r, at), at += local_count;
}

/// The same for floats sent as bfloat16. A rank's own part is rounded too, so that the sum does not depend on the
/// owner.
template <class Sends, class Push>
void exchange_halves(any_communicator& c, const float* mine, std::span<const std::size_t> counts,
                     exchange_scratch& scratch, Sends&& sends, Push&& push) {
  const bf16* sent = nullptr;
  if (mine) {
    const std::size_t n = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    scratch.sent_halves.resize(n + 1);
    for (std::size_t i = 0; i < n; ++i) scratch.sent_halves[i] = bf16(mine[i]);
    sent = scratch.sent_halves.data();
  }
  exchange(c, sent, counts, scratch, sends, [&](std::size_t r, const bf16* x) {
    scratch.floats.resize(counts[static_cast<std::size_t>(c.rank())] + 1);
    for (std::size_t i = 0; i + 1 < scratch.floats.size(); ++i) scratch.floats[i] = static_cast<float>(x[i]);
    push(r, static_cast<const float*>(scratch.floats.data()));
  });
}

}  // namespace parallel
RLCORE_END
