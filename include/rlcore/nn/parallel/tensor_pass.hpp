// Tensor parallel group, and tensor and sequence parallel passes: all-reduce, all-gather and reduce-scatter of a
// layer's rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/layer/norm.hpp"
#include "rlcore/nn/model/pass.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/device_memory.hpp"
#include "rlcore/parallel/reduction/reduction.hpp"

RLCORE_BEGIN
namespace nn {

/// One rank's end of a tensor parallel group, over any engine. It adds sums by pairs of neighbouring ranks (see
/// parallel::tree), and every rank gets the same bits. Data are in host memory; links() is for those of devices.
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
  /// The ranks, if their engine may link devices (parallel::links_of); otherwise null.
  virtual parallel::any_communicator* links() { return nullptr; }

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
  parallel::any_communicator* links() override { return parallel::links_of(*c_); }

 private:
  C* c_;
  parallel::reduction_scratch<float> scratch_;
};

/// Sequence parallelism. Between its layers a pass has `rows` rows on this rank. They begin at row `offset` of the
/// rank's rows of the whole batch. Rank r has counts[r] rows. `whole` and `other` hold all rows, [tokens, hidden]; a
/// layer may overwrite them.
struct row_share {
  std::vector<std::size_t> counts;
  extent_t rows = 0, offset = 0;
  float *whole = nullptr, *other = nullptr;

  /// Of rows [begin, end) of a batch of `tokens`.
  row_share of(const tensor_group& group, extent_t tokens, extent_t begin, extent_t end) const {
    row_share s;
    s.whole = whole, s.other = other;
    for (int r = 0; r < group.size(); ++r) {
      const extent_t low = tokens * r / group.size(), high = tokens * (r + 1) / group.size();
      const extent_t from = std::clamp(begin, low, high), to = std::clamp(end, low, high);
      s.counts.push_back(static_cast<std::size_t>(to - from));
      if (r == group.rank()) s.rows = to - from, s.offset = from - low;
    }
    return s;
  }
};

/// Rows that this rank has of the pass between layers.
template <class Device>
extent_t own_rows(const pass<Device>& p) {
  return p.share ? p.share->rows : p.tokens;
}
/// The index of the pass's first row among this rank's rows; `begin` is its index among all rows.
template <class Device>
extent_t own_begin(const pass<Device>& p, extent_t begin) {
  return p.share ? p.share->offset : begin;
}

/// Calls f(span) on a host copy of the n values at x and writes the result back to x.
template <class Device, class F>
void on_host(Device& device, tensor_group& group, float* x, std::size_t n, F&& f) {
  if constexpr (Device::host_readable) {
    device.wait();
    f(std::span<float>(x, n));
  } else {
    group.staged.resize(n);
    device.download(group.staged.data(), x, n * sizeof(float));
    f(std::span<float>(group.staged));
    device.upload(x, group.staged.data(), n * sizeof(float));
  }
}

/// The ranks of the pass, if their devices exchange memory themselves; otherwise null.
template <class Device>
parallel::any_communicator* links_of(const pass<Device>& p) {
  parallel::any_communicator* const links = p.tensor->links();
  return links != nullptr && parallel::linked(p.device, *links) ? links : nullptr;
}

/// All-reduces x [n] over the ranks of the pass; does nothing in a serial pass.
template <class Device>
void sum_over_ranks(const pass<Device>& p, float* x, extent_t n) {
  if (!p.tensor) return;
  const auto size = static_cast<std::size_t>(n);
  if (parallel::any_communicator* const links = links_of(p))
    return parallel::all_reduce_sum(parallel::tree{}, p.device, *links, x, size);
  on_host(p.device, *p.tensor, x, size, [&](std::span<float> values) { p.tensor->sum(values); });
}

/// Elements per rank for counts[r] rows of `width`.
inline std::span<const std::size_t> elements_of(tensor_group& group, const std::vector<std::size_t>& rows,
                                                extent_t width) {
  group.elements.clear();
  for (const std::size_t n : rows) group.elements.push_back(n * static_cast<std::size_t>(width));
  return group.elements;
}

/// All-gathers `local` [own_rows, width]: returns `local` itself, or `room` under sequence parallelism.
template <class Device>
float* all_rows(const pass<Device>& p, float* local, float* room, extent_t width) {
  if (!p.share) return local;
  const auto mine = static_cast<std::size_t>(own_rows(p) * width), total = static_cast<std::size_t>(p.tokens * width);
  const std::span<const std::size_t> counts = elements_of(*p.tensor, p.share->counts, width);
  if (parallel::any_communicator* const links = links_of(p)) {
    links->device_all_gather(local, room, parallel::bytes_of<float>(counts));
  } else if constexpr (Device::host_readable) {
    p.device.wait();
    p.tensor->gather(std::span<const float>(local, mine), counts, std::span<float>(room, total));
  } else {
    std::vector<float>&from = p.tensor->staged, &to = p.tensor->received;
    from.resize(mine), to.resize(total);
    p.device.download(from.data(), local, mine * sizeof(float));
    p.tensor->gather(std::span<const float>(from), counts, std::span<float>(to));
    p.device.upload(room, to.data(), total * sizeof(float));
  }
  return room;
}
/// The output of a layer's partial sum for all rows: `local`, or `room` under sequence parallelism.
template <class Device>
float* partial_rows(const pass<Device>& p, float* local, float* room) {
  return p.share ? room : local;
}
/// Completes the sum: local [own_rows, width] = this rank's rows of the sum over ranks of partial_rows().
template <class Device>
void sum_rows_over_ranks(const pass<Device>& p, float* local, const float* room, extent_t width) {
  if (!p.share) return sum_over_ranks(p, local, p.tokens * width);
  const auto mine = static_cast<std::size_t>(own_rows(p) * width), total = static_cast<std::size_t>(p.tokens * width);
  const std::span<const std::size_t> counts = elements_of(*p.tensor, p.share->counts, width);
  if (parallel::any_communicator* const links = links_of(p)) {
    parallel::reduce_scatter_sum(parallel::tree{}, p.device, *links, room, counts, local);
  } else if constexpr (Device::host_readable) {
    p.device.wait();
    p.tensor->sum_parts(std::span<const float>(room, total), counts, std::span<float>(local, mine));
  } else {
    std::vector<float>&from = p.tensor->staged, &to = p.tensor->received;
    from.resize(total), to.resize(mine);
    p.device.download(from.data(), room, total * sizeof(float));
    p.tensor->sum_parts(std::span<const float>(from), counts, std::span<float>(to));
    p.device.upload(local, to.data(), mine * sizeof(float));
  }
}

/// All ranks wrote the same rows to partial_rows(); keeps only this rank's rows.
template <class Device>
void keep_own_rows(const pass<Device>& p, float* local, const float* room, extent_t width) {
  if (!p.share) return;
  std::size_t before = 0;
  for (int r = 0; r < p.tensor->rank(); ++r) before += p.share->counts[static_cast<std::size_t>(r)];
  p.device.run(op::copy_rows{.y = local,
                             .y_row = width,
                             .x = room + static_cast<extent_t>(before) * width,
                             .x_row = width,
                             .count = own_rows(p),
                             .width = width});
}

/// As norm::backward for own rows [own_rows, width] with dx += ... . The weight's gradient is a sum over rows; it is
/// passed from rank to rank in row order, so that it is bit-identical to one rank.
template <class Device>
void backward_of_own_rows(const pass<Device>& p, const norm& n, float* dx, const float* dy, const float* x,
                          const float* rstd) {
  const extent_t w = n.width, rows = own_rows(p);
  if (!p.share || !p.gradients) return n.backward(p.device, p.weights, p.gradients, dx, dy, w, x, w, rstd, rows, true);
  float* g = p.gradients + n.weight;
  for (int r = 0; r < p.tensor->size(); ++r) {
    if (p.share->counts[static_cast<std::size_t>(r)] == 0) continue;
    if (r == p.tensor->rank())
      p.device.run(op::rms_norm_backward_weight{
          .norm = n.arguments(p.weights, w), .dweight = g, .dy = dy, .dy_row = w, .x = x, .rstd = rstd, .rows = rows});
    on_host(p.device, *p.tensor, g, static_cast<std::size_t>(w),
            [&](std::span<float> values) { p.tensor->broadcast(values, r); });
  }
  n.backward(p.device, p.weights, nullptr, dx, dy, w, x, w, rstd, rows, true);
}

}  // namespace nn
RLCORE_END
