// Leaf schedule: assigns the leaves (micro-batches) of an optimizer step to ranks and rounds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/balance.hpp"
#include "rlcore/parallel/reduction/reduction_tree.hpp"
#include "rlcore/parallel/settings.hpp"

RLCORE_BEGIN
namespace parallel {

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
