// Shared state of all kinds of context parallelism.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/parallel/context_plan.hpp"
#include "rlcore/nn/parallel/context_wire.hpp"

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
