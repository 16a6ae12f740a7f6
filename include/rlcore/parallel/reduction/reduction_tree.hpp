// Binary reduction tree over the leaves of an optimizer step, and which rank computes which leaf: an addition order
// that does not depend on the number of ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/balance.hpp"
#include "rlcore/parallel/settings.hpp"

RLCORE_BEGIN
namespace parallel {

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
