// Collectives of context parallelism on rows of device memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/device_memory.hpp"
#include "rlcore/parallel/reduction/reduction.hpp"

RLCORE_BEGIN
namespace nn {

/// Ranks first, first + stride, ... of a communicator, `size` of them.
struct rank_subset {
  int first = 0, stride = 1, size = 0;
};

/// The collectives work in place if the host can read device memory; otherwise the devices exchange it themselves, or
/// it travels through host memory. Rank k has rows[k] rows of `width` floats. Of a wire over subsets all ranks of the
/// communicator make the same calls together, each for its own subset.
template <class Device>
class context_wire {
 public:
  /// Over all ranks. Both must outlive it.
  context_wire(Device& device, parallel::any_communicator& ranks)
      : context_wire(device, ranks, rank_subset{0, 1, ranks.size()}) {}
  /// Over the subset of this rank. shift() needs one that reaches around: stride * size = the ranks.
  context_wire(Device& device, parallel::any_communicator& ranks, const rank_subset& subset)
      : device_(device), ranks_(ranks), subset_(subset) {}

  int rank() const { return (ranks_.rank() - subset_.first) / subset_.stride; }
  int size() const { return subset_.size; }

  /// All-gather: out = the rows of all ranks in rank order.
  void all_gather(const float* in, float* out, std::span<const extent_t> rows, extent_t width) {
    count(counts_, rows, width);
    const std::size_t n = counts_[static_cast<std::size_t>(rank())], gathered = total(counts_);
    if (size() == ranks_.size() && linked())
      return ranks_.device_all_gather(in, out, parallel::bytes_of<float>(counts_));
    if (linked()) {
      buffer<float, Device> copies(device_, n * counts_.size());
      for (std::size_t k = 0; k < counts_.size(); ++k) parallel::copy_values(device_, copies.data() + k * n, in, n);
      received_ = counts_;
      counts_.assign(counts_.size(), n);
      return move(copies.data(), out);
    }
    if (size() == ranks_.size()) {
      ranks_.all_gather_v(read(in, n), room(out, gathered), std::span<const std::size_t>(counts_));
    } else {
      const std::span<const float> rows_here = read(in, n);
      copies_.clear();
      for (int k = 0; k < size(); ++k) copies_.insert(copies_.end(), rows_here.begin(), rows_here.end());
      received_ = counts_;
      counts_.assign(counts_.size(), n);
      exchange(copies_, room(out, gathered));
    }
    write(out, gathered);
  }
  /// Reduce-scatter: out = the sum over ranks, in rank order, of this rank's rows of `in`, which has the rows of all
  /// ranks.
  void reduce_scatter(const float* in, float* out, std::span<const extent_t> rows, extent_t width) {
    count(counts_, rows, width);
    const std::size_t n = counts_[static_cast<std::size_t>(rank())], gathered = total(counts_);
    if (linked()) {
      buffer<float, Device> rows_of_all(device_, n * counts_.size());
      received_.assign(counts_.size(), n);
      move(in, rows_of_all.data());
      parallel::sum_rows(parallel::ranked{}, device_, rows_of_all.data(), counts_.size(), n);
      return parallel::copy_values(device_, out, rows_of_all.data(), n);
    }
    const std::span<const float> rows_here = read(in, gathered);
    if (size() == ranks_.size()) {
      parallel::reduce_scatter_sum(parallel::ranked{}, ranks_, rows_here, std::span<const std::size_t>(counts_),
                                   room(out, n), scratch_);
    } else {
      received_.assign(counts_.size(), n);
      copies_.resize(n * counts_.size());
      exchange(rows_here, copies_);
      const std::span<float> sum = room(out, n);
      std::copy_n(copies_.begin(), n, sum.begin());
      for (std::size_t at = n; at < copies_.size(); at += n)
        for (std::size_t i = 0; i < n; ++i) sum[i] += copies_[at + i];
    }
    write(out, n);
  }
  /// All-to-all: sends `local_rows` different rows to each rank and receives rows[k] from rank k, in rank order.
  void scatter(const float* in, extent_t local_rows, float* out, std::span<const extent_t> rows, extent_t width) {
    counts_.assign(rows.size(), static_cast<std::size_t>(local_rows * width));
    count(received_, rows, width);
    move(in, out);
  }
  /// The inverse: sends rows[k] to rank k and receives `local_rows` from each rank.
  void collect(const float* in, float* out, extent_t local_rows, std::span<const extent_t> rows, extent_t width) {
    count(counts_, rows, width);
    received_.assign(rows.size(), static_cast<std::size_t>(local_rows * width));
    move(in, out);
  }
  /// Sends n floats to the rank `distance` after this one and receives n from the rank `distance` before it.
  void shift(const float* in, float* out, std::size_t n, int distance) {
    ranks_.shift(read(in, n), room(out, n), distance * subset_.stride);
    write(out, n);
  }

 private:
  bool linked() const { return parallel::linked(device_, ranks_); }
  void move(const float* in, float* out) {
    if (linked())
      return ranks_.device_all_to_all(in, parallel::bytes_of<float>(of_all_ranks(counts_, sent_counts_)), out,
                                      parallel::bytes_of<float>(of_all_ranks(received_, received_counts_)));
    const std::size_t sent = total(counts_), came = total(received_);
    exchange(read(in, sent), room(out, came));
    write(out, came);
  }
  /// All-to-all of counts_[k] floats to and received_[k] floats from rank k of the subset.
  void exchange(std::span<const float> in, std::span<float> out) {
    ranks_.all_to_all_v(in, of_all_ranks(counts_, sent_counts_), out, of_all_ranks(received_, received_counts_));
  }
  std::span<const std::size_t> of_all_ranks(const std::vector<std::size_t>& counts,
                                            std::vector<std::size_t>& room_for_all) const {
    room_for_all.assign(static_cast<std::size_t>(ranks_.size()), 0);
    for (std::size_t k = 0; k < counts.size(); ++k)
      room_for_all[static_cast<std::size_t>(subset_.first) + k * static_cast<std::size_t>(subset_.stride)] = counts[k];
    return room_for_all;
  }
  static void count(std::vector<std::size_t>& to, std::span<const extent_t> rows, extent_t width) {
    to.clear();
    for (const extent_t n : rows) to.push_back(static_cast<std::size_t>(n * width));
  }
  static std::size_t total(const std::vector<std::size_t>& counts) {
    std::size_t sum = 0;
    for (const std::size_t n : counts) sum += n;
    return sum;
  }

  std::span<const float> read(const float* from, std::size_t n) {
    if constexpr (Device::host_readable) return {from, n};
    sent_.resize(n);
    device_.download(sent_.data(), from, n * sizeof(float));
    return sent_;
  }
  std::span<float> room(float* to, std::size_t n) {
    if constexpr (Device::host_readable) return {to, n};
    come_.resize(n);
    return come_;
  }
  void write([[maybe_unused]] float* to, [[maybe_unused]] std::size_t n) {
    if constexpr (!Device::host_readable) device_.upload(to, come_.data(), n * sizeof(float));
  }

  Device& device_;
  parallel::any_communicator& ranks_;
  rank_subset subset_;
  std::vector<std::size_t> counts_, received_, sent_counts_, received_counts_;
  std::vector<float> sent_, come_, copies_;
  parallel::reduction_scratch<float> scratch_;
};

}  // namespace nn
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {
extern template class context_wire<cpu>;
extern template class context_wire<any_device>;
}  // namespace nn
RLCORE_END
#endif
