// Binary reduction tree over the leaves of an optimizer step: an addition order that does not depend on the number of
// ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

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

}  // namespace parallel
RLCORE_END
