// Deterministic all-reduce and reduce-scatter: all_to_all, then a local sum in a fixed order. Same bits on every
// engine, for every message size, and for every split of the data into calls. Binary reduction tree of an optimizer
// step, and the leaves of each rank.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/dtype.hpp"
#include "rlcore/parallel/balance.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/settings.hpp"

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

/// The sum over the leaves [index * 2^level, (index + 1) * 2^level).
struct reduction_node {
  std::size_t level = 0, index = 0;

  std::size_t first() const noexcept { return index << level; }
  friend bool operator==(const reduction_node&, const reduction_node&) = default;
};

/// Accepts nodes in any order. Two siblings are merged as soon as both are present, so it stores only nodes without a
/// sibling: at most one per level if leaves arrive in order. The left part of a sum is the largest power of two. A node
/// may be absent (none of its leaves has rows): it adds nothing. Once all leaves are present, root() is their sum.
template <class T>
class reduction_tree {
 public:
  /// A node that waits for its sibling; without a value it is absent.
  struct entry {
    reduction_node node;
    std::optional<T> value;
  };

  /// An empty tree over leaves 0 .. leaves - 1.
  explicit reduction_tree(std::size_t leaves = 1) : leaves_(leaves) {
    while (std::size_t{1} << depth_ < leaves) ++depth_;
  }

  /// `add(T& left, T&& right)` computes left += right.
  template <class Add>
  void push(reduction_node node, std::optional<T> value, Add&& add) {
    while (node.level < depth_) {
      const reduction_node sibling{node.level, node.index ^ 1};
      if (sibling.first() < leaves_) {
        const auto known =
            std::find_if(entries_.begin(), entries_.end(), [&](const entry& e) { return e.node == sibling; });
        if (known == entries_.end()) break;
        std::optional<T> other = std::move(known->value);
        entries_.erase(known);
        if (node.index % 2 == 1) std::swap(value, other);
        if (value && other)
          add(*value, std::move(*other));
        else if (other)
          value = std::move(other);
      }
      node = {node.level + 1, node.index / 2};
    }
    entries_.push_back({node, std::move(value)});
  }
  /// Pushes one leaf.
  template <class Add>
  void push_leaf(std::size_t leaf, std::optional<T> value, Add&& add) {
    push({0, leaf}, std::move(value), std::forward<Add>(add));
  }

  /// The value of the leaf before `leaf`, if the two are siblings and it waits for this one: what is added there need
  /// not be pushed, but as an absent leaf. Null otherwise.
  T* left_of(std::size_t leaf) {
    if (leaf % 2 == 0) return nullptr;
    const auto known = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const entry& e) { return e.node == reduction_node{0, leaf - 1}; });
    return known != entries_.end() && known->value ? &*known->value : nullptr;
  }
  /// The nodes that are still pending.
  const std::vector<entry>& entries() const noexcept { return entries_; }
  std::vector<entry>& entries() noexcept { return entries_; }
  bool complete() const noexcept { return entries_.size() == 1 && entries_[0].node.level == depth_; }
  /// Empty if no leaf holds rows.
  std::optional<T>& root() { return entries_.at(0).value; }
  void clear() noexcept { entries_.clear(); }

 private:
  std::size_t leaves_, depth_ = 0;
  std::vector<entry> entries_;
};

/// Assigns rows to leaves: parts of equal cost, or equal numbers of consecutive rows. Rows ascend in a leaf.
/// Independent of the ranks.
inline std::vector<std::vector<std::uint32_t>> partition_rows(std::span<const double> cost, std::size_t leaves,
                                                              bool balanced) {
  if (leaves > 1 && balanced) {
    auto parts = balance(cost, leaves, false);
    for (auto& p : parts) std::sort(p.begin(), p.end());
    return parts;
  }
  std::vector<std::vector<std::uint32_t>> parts(leaves);
  for (std::size_t l = 0; l < leaves; ++l) {
    parts[l].resize((l + 1) * cost.size() / leaves - l * cost.size() / leaves);
    std::iota(parts[l].begin(), parts[l].end(), static_cast<std::uint32_t>(l * cost.size() / leaves));
  }
  return parts;
}

/// Assigns leaves to ranks. If gradients stay whole until the end, a data rank has consecutive leaves, so that it can
/// add them before it sends anything; if they are sharded immediately (zero 2 and 3), the ranks that share weights take
/// consecutive leaves in every round. A leaf whose rows are split over `contexts` ranks has one sum per rank, with tree
/// indices leaf, leaves + leaf, ...
class leaf_schedule {
 public:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  /// For the sizes of the mesh, s.leaves leaves and the ZeRO stage s.zero.
  leaf_schedule(const mesh& m, const parallel_settings& s)
      : leaves_(static_cast<std::size_t>(s.leaves)),
        contexts_(static_cast<std::size_t>(m.context_size)),
        ranks_(static_cast<std::size_t>(m.data_size)),
        step_(s.zero >= 2 ? std::max<std::size_t>(1, static_cast<std::size_t>(m.shard_size) / contexts_) : 1) {
    for (std::size_t g = 0; g < groups(); ++g)
      rounds_ = std::max(rounds_, (first(g + 1) - first(g) + step_ - 1) / step_);
  }

  std::size_t leaves() const noexcept { return leaves_; }
  std::size_t data_ranks() const noexcept { return ranks_; }
  /// The number of leaves of the tree.
  std::size_t sums() const noexcept { return leaves_ * contexts_; }
  /// The number of leaves of the busiest rank.
  std::size_t rounds() const noexcept { return rounds_; }
  /// The leaf of data rank d in a round, or none.
  std::size_t leaf(std::size_t d, std::size_t round) const {
    const std::size_t at = first(d / step_) + round * step_ + d % step_;
    return at < first(d / step_ + 1) ? at : none;
  }
  /// Its tree index for a rank (d * contexts + c) of the group over which gradients are summed, or none.
  std::size_t number(std::size_t rank, std::size_t round) const {
    const std::size_t at = leaf(rank / contexts_, round);
    return at == none ? none : rank % contexts_ * leaves_ + at;
  }
  /// Does tree index `number` have rows? `leaves` lists which leaves have rows.
  bool present(std::size_t number, const std::vector<bool>& leaves) const { return leaves[number % leaves_]; }

 private:
  std::size_t groups() const noexcept { return ranks_ / step_; }
  std::size_t first(std::size_t group) const noexcept { return group * leaves_ / groups(); }

  std::size_t leaves_, contexts_, ranks_, step_, rounds_ = 0;
};

}  // namespace parallel
RLCORE_END
