// The assignment of a batch's targets to the ranks of a context group.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/parallel/context_plan.hpp"
#include "rlcore/parallel/communicator/any.hpp"

RLCORE_BEGIN
namespace nn {

/// A target belongs to the rank that has its row.
class context_targets {
 public:
  /// `wanted`: rows of the packed batch, whose sequences begin at `offsets`.
  context_targets(const context_plan& plan, int rank, std::span<const std::int32_t> offsets,
                  std::span<const std::int32_t> wanted)
      : counts_(static_cast<std::size_t>(plan.ranks())), order_(wanted.size()) {
    std::vector<int> owner;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto after = std::upper_bound(offsets.begin(), offsets.end(), wanted[i]);
      const auto s = static_cast<std::size_t>(after - offsets.begin()) - 1;
      const extent_t position = wanted[i] - offsets[s];
      const context_piece& p = plan.at(s, position);
      sequence_.push_back(s);
      owner.push_back(p.rank);
      ++counts_[static_cast<std::size_t>(p.rank)];
      if (p.rank != rank) continue;
      local_.push_back(static_cast<std::int32_t>(i));
      rows_.push_back(static_cast<std::int32_t>(p.at + position - p.first));
    }
    std::vector<std::size_t> next(counts_.size(), 0);
    for (std::size_t k = 1; k < next.size(); ++k) next[k] = next[k - 1] + counts_[k - 1];
    for (std::size_t i = 0; i < wanted.size(); ++i) order_[next[static_cast<std::size_t>(owner[i])]++] = i;
  }

  /// The numbers of this rank's targets, ascending; rows() are their rows in this rank's batch.
  std::span<const std::int32_t> local() const noexcept { return local_; }
  std::span<const std::int32_t> rows() const noexcept { return rows_; }

  /// to = the values of this rank's targets, from one value for each target.
  template <class T>
  void choose(std::span<const T> values, std::vector<T>& to) const {
    to.clear();
    for (const std::int32_t i : local_) to.push_back(values[static_cast<std::size_t>(i)]);
  }
  /// gathered = one value for each target, in all ranks, from the values of each rank's targets.
  template <class T>
  void gather(parallel::any_communicator& ranks, std::span<const T> local, std::span<T> gathered) const {
    std::vector<T> received(gathered.size());
    ranks.all_gather_v(local, std::span<T>(received), std::span<const std::size_t>(counts_));
    for (std::size_t i = 0; i < gathered.size(); ++i) gathered[order_[i]] = received[i];
  }

  /// Runs of neighbouring sequences with a target for which has_gradient(i), the same in all ranks.
  template <class HasGradient>
  void find_ranges(std::vector<segment_range>& ranges, HasGradient&& has_gradient) const {
    std::vector<std::size_t> active;
    for (std::size_t i = 0; i < sequence_.size(); ++i)
      if (has_gradient(i)) active.push_back(sequence_[i]);
    std::sort(active.begin(), active.end());
    ranges.clear();
    for (const std::size_t s : active) {
      if (ranges.empty() || ranges.back().end < s) ranges.push_back({s, s});
      ranges.back().end = s + 1;
    }
  }

 private:
  std::vector<std::size_t> counts_, sequence_, order_;  // order_: targets by rank
  std::vector<std::int32_t> local_, rows_;
};

}  // namespace nn
RLCORE_END
