// Context parallel pass over packed sequences; the ranks communicate in attention.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/parallel/context_gather.hpp"
#include "rlcore/nn/parallel/context_plan.hpp"
#include "rlcore/nn/parallel/context_ring.hpp"
#include "rlcore/nn/parallel/context_share.hpp"
#include "rlcore/nn/parallel/context_ulysses.hpp"
#include "rlcore/parallel/reduction/reduction.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

/// The lengths, the targets and their gradients determine the collectives. They are the same in all ranks, so a rank
/// without rows takes part in all of them.
template <class Device>
class context_pass {
 public:
  /// `shape` of the attention of every layer, `constant` of parallel::sequence_cost; `rows` are the targets'. Throws
  /// as check_context().
  context_pass(Device& device, workspace<Device>& space, const attention_shape& shape, double constant,
               const ragged<std::int32_t>& sequences, std::span<const std::int32_t> rows)
      : share_(device, space, shape, plan_of(space, device, shape, constant, sequences)),
        targets_(share_.plan, share_.wire.rank(), sequences.offsets, rows),
        ranks_(*space.context.ranks),
        gather_(share_),
        ring_(share_),
        ulysses_(share_) {}

  const context_plan& plan() const noexcept { return share_.plan; }
  std::span<const context_piece> pieces() const { return share_.plan.pieces(share_.wire.rank()); }
  const context_targets& targets() const noexcept { return targets_; }
  /// gathered = one value for each target, in all ranks, from `local`, one for each of this rank's targets.
  template <class T>
  void gather(std::span<const T> local, std::span<T> gathered) {
    targets_.gather(ranks_, local, gathered);
  }

  /// Restricts the pass to sequences [begin, end). This rank's rows in them begin at first_row().
  void select(std::size_t begin, std::size_t end) {
    share_.select(begin, end);
    ulysses_.select(begin, end);
  }
  extent_t first_row() const noexcept { return share_.first_row; }
  extent_t rows() const noexcept { return share_.rows; }

  /// x = the all-reduced sum over the ranks.
  void sum(std::span<std::int64_t> x) { parallel::all_reduce_sum(parallel::ranked{}, ranks_, x); }

  /// Allocates the memory of backward(). Call it before the first backward(), while all sequences are selected.
  void begin_backward() {
    if (share_.plan.kind() == parallel::context_kind::gather_kv) gather_.begin_backward();
    if (share_.plan.kind() == parallel::context_kind::ulysses) ulysses_.begin_backward();
  }

  /// Computes a.attended and a.statistics from a.qkv.
  void forward(const attention_activations& a) {
    switch (share_.plan.kind()) {
      case parallel::context_kind::gather_kv:
        return gather_.forward(a);
      case parallel::context_kind::ring:
        return ring_.forward(a);
      case parallel::context_kind::ulysses:
        return ulysses_.forward(a);
    }
  }
  /// Computes dqkv, zeros on entry, from dattended.
  void backward(const attention_activations& a, const float* dattended, float* dqkv) {
    switch (share_.plan.kind()) {
      case parallel::context_kind::gather_kv:
        return gather_.backward(a, dattended, dqkv);
      case parallel::context_kind::ring:
        return ring_.backward(a, dattended, dqkv);
      case parallel::context_kind::ulysses:
        return ulysses_.backward(a, dattended, dqkv);
    }
  }

 private:
  static context_plan plan_of(const workspace<Device>& space, const Device& device, const attention_shape& shape,
                              double constant, const ragged<std::int32_t>& sequences) {
    check_context(device, space.context);
    std::vector<extent_t> lengths;
    for (std::size_t s = 0; s < sequences.rows(); ++s) lengths.push_back(static_cast<extent_t>(sequences.length(s)));
    const int ranks = space.context.ranks->size();
    return {space.context.kind,
            ranks,
            lengths,
            constant,
            attention_tile(device),
            ulysses_head_ranks(ranks, shape.kv_heads)};
  }

  context_share<Device> share_;
  context_targets targets_;
  parallel::any_communicator& ranks_;
  context_gather<Device> gather_;
  context_ring<Device> ring_;
  context_ulysses<Device> ulysses_;
};

}  // namespace nn
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {
extern template class context_pass<cpu>;
extern template class context_pass<any_device>;
}  // namespace nn
RLCORE_END
#endif
