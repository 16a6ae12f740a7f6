// Shared state of all kinds of context parallelism, and the assignment of a batch's targets to ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/parallel/context_plan.hpp"
#include "rlcore/nn/parallel/context_wire.hpp"
#include "rlcore/parallel/communicator/any.hpp"

RLCORE_BEGIN
namespace nn {

/// The plan of a pass and its selected sequences. Rows of shared sequences travel "by rank": those of rank 0 first, by
/// sequence and position, then those of rank 1, and so on.
template <class Device>
struct context_share {
  Device& device;
  workspace<Device>& space;
  attention_shape shape;
  context_plan plan;
  context_wire<Device> wire;

  std::size_t begin = 0, end = 0;         ///< the sequences
  extent_t first_row = 0, rows = 0;       ///< this rank's in them
  std::span<const context_piece> pieces;  ///< likewise
  std::vector<extent_t> shared_rows;      ///< of each rank, in shared sequences
  std::vector<extent_t> base;             ///< of a sequence: shared rows of sequences before it
  extent_t all_shared = 0;                ///< of all ranks

  /// The state of plan `p` with all sequences selected; `s` must have a context group.
  context_share(Device& d, workspace<Device>& s, const attention_shape& of, context_plan p)
      : context_share(d, s, of, std::move(p), rank_subset{0, 1, s.context.ranks->size()}) {}
  /// The same among a subset of the ranks of the context group; the plan's ranks are those of the subset.
  context_share(Device& d, workspace<Device>& s, const attention_shape& of, context_plan p, const rank_subset& subset)
      : device(d), space(s), shape(of), plan(std::move(p)), wire(d, *s.context.ranks, subset) {
    select(0, plan.sequences());
  }

  extent_t q_width() const { return shape.heads * shape.head_dim; }
  extent_t kv_width() const { return 2 * shape.kv_heads * shape.head_dim; }
  extent_t width() const { return q_width() + kv_width(); }

  /// Selects sequences [from, to) for all later calls.
  void select(std::size_t from, std::size_t to) {
    begin = from, end = to;
    pieces = plan.pieces(wire.rank(), from, to);
    first_row = pieces.empty() ? 0 : pieces.front().at;
    rows = pieces.empty() ? 0 : pieces.back().at + pieces.back().rows - first_row;
    shared_rows.assign(static_cast<std::size_t>(plan.ranks()), 0);
    base.assign(plan.sequences() + 1, 0);
    all_shared = 0;
    for (int k = 0; k < plan.ranks(); ++k)
      for (const context_piece& p : plan.pieces(k, from, to)) {
        if (!plan.shared(p.sequence)) continue;
        shared_rows[static_cast<std::size_t>(k)] += p.rows;
        base[p.sequence + 1] += p.rows;
        all_shared += p.rows;
      }
    for (std::size_t s = 0; s < plan.sequences(); ++s) base[s + 1] += base[s];
  }

  /// Is the sequence of this piece split between ranks?
  bool shared(const context_piece& p) const { return plan.shared(p.sequence); }
  extent_t own_shared() const { return shared_rows[static_cast<std::size_t>(wire.rank())]; }
  extent_t most_shared() const { return *std::max_element(shared_rows.begin(), shared_rows.end()); }
  /// Row of `qkv`, in which the selected rows begin.
  extent_t row(const context_piece& p) const { return p.at - first_row; }

  /// Copies keys and values of this rank's shared rows between the columns of qkv and packed rows [n, kv_width].
  void pack_keys(float* to, const float* qkv) const {
    for (const context_piece& p : pieces) {
      if (!shared(p)) continue;
      device.run(op::copy_rows{.y = to,
                               .y_row = kv_width(),
                               .x = qkv + row(p) * width() + q_width(),
                               .x_row = width(),
                               .count = p.rows,
                               .width = kv_width()});
      to += p.rows * kv_width();
    }
  }
  /// The inverse of pack_keys().
  void unpack_keys(float* qkv, const float* from) const {
    for (const context_piece& p : pieces) {
      if (!shared(p)) continue;
      device.run(op::copy_rows{.y = qkv + row(p) * width() + q_width(),
                               .y_row = width(),
                               .x = from,
                               .x_row = kv_width(),
                               .count = p.rows,
                               .width = kv_width()});
      from += p.rows * kv_width();
    }
  }
};

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

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {
extern template struct context_share<cpu>;
extern template struct context_share<any_device>;
}  // namespace nn
RLCORE_END
#endif
