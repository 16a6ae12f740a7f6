// Tensor parallel group and its collectives.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/reduction/reduction.hpp"

RLCORE_BEGIN
namespace nn {

/// One rank's end of a tensor parallel group, over any engine. It adds sums by pairs of neighbouring ranks (see
/// parallel::tree), and every rank gets the same bits. All data are in host memory.
class tensor_group {
 public:
  /// `sequence`: between the layers each rank keeps only its share of the rows of a training pass (sequence
  /// parallelism, Korthikanti et al. 2022). It changes the memory, not the bits.
  explicit tensor_group(bool sequence) : sequence_(sequence) {}
  tensor_group(const tensor_group&) = delete;
  tensor_group& operator=(const tensor_group&) = delete;
  virtual ~tensor_group() = default;

  bool sequence() const noexcept { return sequence_; }
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// All-reduce: x = the sum over ranks of x.
  virtual void sum(std::span<float> x) = 0;
  /// Reduce-scatter: local = this rank's part of the sum; part r of x has counts[r] elements.
  virtual void sum_parts(std::span<const float> x, std::span<const std::size_t> counts, std::span<float> local) = 0;
  /// All-gather: gathered = the counts[r] elements of every rank r, in rank order.
  virtual void gather(std::span<const float> local, std::span<const std::size_t> counts, std::span<float> gathered) = 0;
  /// The same for equal numbers of states.
  virtual void gather(std::span<const log_prob_state> local, std::span<log_prob_state> gathered) = 0;
  /// Sends x of rank `root` to all ranks.
  virtual void broadcast(std::span<float> x, int root) = 0;

  // Host memory reused between calls.
  std::vector<float> staged, received;
  std::vector<log_prob_state> own_states, states;
  std::vector<std::size_t> elements;

 private:
  bool sequence_;
};

/// `c` must outlive it.
template <parallel::communicator C>
class tensor_group_of final : public tensor_group {
 public:
  /// This rank's end of the group `c`; `sequence` as in tensor_group.
  explicit tensor_group_of(C& c, bool sequence = false) : tensor_group(sequence), c_(&c) {}

  int rank() const override { return c_->rank(); }
  int size() const override { return c_->size(); }
  /// In the order of parallel::tree.
  void sum(std::span<float> x) override { parallel::all_reduce_sum(parallel::tree{}, *c_, x, scratch_); }
  /// In the order of parallel::tree.
  void sum_parts(std::span<const float> x, std::span<const std::size_t> counts, std::span<float> local) override {
    parallel::reduce_scatter_sum(parallel::tree{}, *c_, x, counts, local, scratch_);
  }
  /// As communicator's all_gather_v.
  void gather(std::span<const float> local, std::span<const std::size_t> counts, std::span<float> gathered) override {
    c_->all_gather_v(local, gathered, counts);
  }
  /// As communicator's all_gather.
  void gather(std::span<const log_prob_state> local, std::span<log_prob_state> gathered) override {
    c_->all_gather(local, gathered);
  }
  /// As communicator's broadcast.
  void broadcast(std::span<float> x, int root) override { c_->broadcast(x, root); }

 private:
  C* c_;
  parallel::reduction_scratch<float> scratch_;
};

}  // namespace nn
RLCORE_END
