// Expert parallel group: the ranks that divide the experts, and their all-to-all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/nn/parallel/partition.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/device_memory.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

/// One rank's end of an expert parallel group, over any engine (Lepikhin et al. 2020, GShard). Each rank has its own
/// tokens; rows go to the ranks of their experts and come back. Data are in host memory but for exchange_rows().
class expert_group {
 public:
  expert_group() = default;
  expert_group(const expert_group&) = delete;
  expert_group& operator=(const expert_group&) = delete;
  virtual ~expert_group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// gathered [size() * n] = the n numbers of every rank, in rank order.
  virtual void all_gather(std::span<const std::int64_t> local, std::span<std::int64_t> gathered) = 0;
  /// Sends in_counts[r] values to rank r and receives out_counts[r] values from it, in rank order.
  virtual void all_to_all(std::span<const float> in, std::span<const std::size_t> in_counts, std::span<float> out,
                          std::span<const std::size_t> out_counts) = 0;

  /// The ranks, if their engine may link devices (parallel::links_of); otherwise null.
  virtual parallel::any_communicator* links() { return nullptr; }

  /// The experts that rank r computes.
  slice experts_of(int r, std::int64_t experts) const { return part_of(experts, r, size()); }

  // Host memory reused between calls.
  std::vector<float> sent, received;
  std::vector<std::int64_t> counts;
  std::vector<std::size_t> rows_received, rows_sent, in_elements, out_elements;
};

/// `c` must outlive it.
template <parallel::communicator C>
class expert_group_of final : public expert_group {
 public:
  /// This rank's end of the group `c`.
  explicit expert_group_of(C& c) : c_(&c) {}

  int rank() const override { return c_->rank(); }
  int size() const override { return c_->size(); }
  /// As communicator's all_gather.
  void all_gather(std::span<const std::int64_t> local, std::span<std::int64_t> gathered) override {
    c_->all_gather(local, gathered);
  }
  /// As communicator's all_to_all_v.
  void all_to_all(std::span<const float> in, std::span<const std::size_t> in_counts, std::span<float> out,
                  std::span<const std::size_t> out_counts) override {
    c_->all_to_all_v(in, in_counts, out, out_counts);
  }
  parallel::any_communicator* links() override { return parallel::links_of(*c_); }

 private:
  C* c_;
};

/// Sends rows_in[r] rows of `width` floats to rank r and receives rows_out[r] from it; `in` and `out` are device
/// memory.
template <class Device>
void exchange_rows(Device& device, expert_group& group, const float* in, std::span<const std::size_t> rows_in,
                   float* out, std::span<const std::size_t> rows_out, extent_t width) {
  const auto elements = [width](std::span<const std::size_t> rows, std::vector<std::size_t>& to) {
    std::size_t total = 0;
    to.clear();
    for (const std::size_t n : rows) total += to.emplace_back(n * static_cast<std::size_t>(width));
    return total;
  };
  const std::size_t n = elements(rows_in, group.in_elements), m = elements(rows_out, group.out_elements);
  if (parallel::any_communicator* const links = group.links(); links != nullptr && parallel::linked(device, *links)) {
    links->device_all_to_all(in, parallel::bytes_of<float>(group.in_elements), out,
                             parallel::bytes_of<float>(group.out_elements));
  } else if constexpr (Device::host_readable) {
    device.wait();
    group.all_to_all(std::span<const float>(in, n), group.in_elements, std::span<float>(out, m), group.out_elements);
  } else {
    group.sent.resize(n), group.received.resize(m);
    device.download(group.sent.data(), in, n * sizeof(float));
    group.all_to_all(std::span<const float>(group.sent), group.in_elements, std::span<float>(group.received),
                     group.out_elements);
    device.upload(out, group.received.data(), m * sizeof(float));
  }
}

}  // namespace nn
RLCORE_END
