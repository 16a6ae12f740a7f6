// Collectives of context parallelism on rows of device memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/reduction/reduction.hpp"

RLCORE_BEGIN
namespace nn {

/// The collectives work in place if the host can read device memory, otherwise through host memory. Rank k has rows[k]
/// rows of `width` floats.
template <class Device>
class context_wire {
 public:
  /// Both must outlive it.
  context_wire(Device& device, parallel::any_communicator& ranks) : device_(device), ranks_(ranks) {}

  int rank() const { return ranks_.rank(); }
  int size() const { return ranks_.size(); }

  /// All-gather: out = the rows of all ranks in rank order.
  void all_gather(const float* in, float* out, std::span<const extent_t> rows, extent_t width) {
    count(counts_, rows, width);
    const std::size_t n = counts_[static_cast<std::size_t>(rank())], gathered = total(counts_);
    ranks_.all_gather_v(read(in, n), room(out, gathered), std::span<const std::size_t>(counts_));
    write(out, gathered);
  }
  /// Reduce-scatter: out = the sum over ranks, in rank order, of this rank's rows of `in`, which has the rows of all
  /// ranks.
  void reduce_scatter(const float* in, float* out, std::span<const extent_t> rows, extent_t width) {
    count(counts_, rows, width);
    const std::size_t n = counts_[static_cast<std::size_t>(rank())], gathered = total(counts_);
    parallel::reduce_scatter_sum(parallel::ranked{}, ranks_, read(in, gathered), std::span<const std::size_t>(counts_),
                                 room(out, n), scratch_);
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
    ranks_.shift(read(in, n), room(out, n), distance);
    write(out, n);
  }

 private:
  void move(const float* in, float* out) {
    const std::size_t sent = total(counts_), came = total(received_);
    ranks_.all_to_all_v(read(in, sent), std::span<const std::size_t>(counts_), room(out, came),
                        std::span<const std::size_t>(received_));
    write(out, came);
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
  std::vector<std::size_t> counts_, received_;
  std::vector<float> sent_, come_;
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
