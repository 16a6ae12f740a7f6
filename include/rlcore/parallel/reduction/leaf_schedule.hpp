// Which rank computes which leaf of an optimizer step, and when.
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

/// Deals rows to leaves: parts of equal cost, or equal numbers of neighbours. Rows ascend in a leaf. Knows nothing of
/// ranks.
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

/// Rank by rank. Where gradients stay whole until the end, a data rank has neighbouring leaves, so that it can add them
/// up before it sends anything; where they are cut at once (zero 2 and 3), the ranks that share weights take
/// neighbouring leaves in every round. The rows of a leaf that are cut between `contexts` ranks make as many sums, of
/// numbers leaf, leaves + leaf, ... in the tree.
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
  /// Leaves of the tree.
  std::size_t sums() const noexcept { return leaves_ * contexts_; }
  /// Passes over a leaf that the busiest rank makes.
  std::size_t rounds() const noexcept { return rounds_; }
  /// The leaf of data rank d in a round, or none.
  std::size_t leaf(std::size_t d, std::size_t round) const {
    const std::size_t at = first(d / step_) + round * step_ + d % step_;
    return at < first(d / step_ + 1) ? at : none;
  }
  /// Its number in the tree for a rank (d * contexts + c) of the group over which gradients are summed, or none.
  std::size_t number(std::size_t rank, std::size_t round) const {
    const std::size_t at = leaf(rank / contexts_, round);
    return at == none ? none : rank % contexts_ * leaves_ + at;
  }
  /// Has sum number `number` of the tree rows? `leaves` says which leaves have some.
  bool present(std::size_t number, const std::vector<bool>& leaves) const { return leaves[number % leaves_]; }

 private:
  std::size_t groups() const noexcept { return ranks_ / step_; }
  std::size_t first(std::size_t group) const noexcept { return group * leaves_ / groups(); }

  std::size_t leaves_, contexts_, ranks_, step_, rounds_ = 0;
};

}  // namespace parallel
RLCORE_END
