// Collectives on device memory: by the devices themselves (device_group.hpp) or through the host's memory, and sums
// over ranks in a fixed order; the host's view of device memory.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device_group.hpp"
#include "rlcore/device/operations.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/reduction/reduction.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace parallel {

/// Is the device's memory that of the host, which both read and write? Known at compile time or queried from the
/// device.
template <class Device>
bool host_reads(const Device& device) {
  if constexpr (Device::host_readable)
    return true;
  else if constexpr (requires { device.host_memory(); })
    return device.host_memory();
  else
    return false;
}

/// The values at `from` for the host; may use `copy` as storage.
template <class Device, class T>
const T* host_view(Device& device, const T* from, std::size_t n, std::vector<T>& copy) {
  device.wait();
  if (host_reads(device)) return from;
  copy.resize(n);
  if (n > 0) device.download(copy.data(), from, n * sizeof(T));
  return copy.data();
}

/// f(span) writes the new values of `to`.
template <class Device, class T, class F>
void with_host_view(Device& device, T* to, std::size_t n, std::vector<T>& copy, F&& f) {
  device.wait();
  if (host_reads(device)) return f(std::span<T>(to, n));
  copy.resize(n);
  f(std::span<T>(copy));
  if (n > 0) device.upload(to, copy.data(), n * sizeof(T));
}

/// While it lives, the devices of `ranks` exchange their memory themselves, in this group and in those that are split
/// from it meanwhile.
class device_links {
 public:
  /// All ranks make one, each with its device, which must outlive it. `deadline`: of a collective.
  template <grouped_device Device>
  device_links(any_communicator& ranks, Device& device, std::chrono::milliseconds deadline) : ranks_(&ranks) {
    ranks.link_devices([&device, deadline](any_communicator& group) {
      std::vector<std::byte> root;
      if (group.rank() == 0) root = device.group_root();
      std::size_t size = root.size();
      group.broadcast(std::span(&size, 1), 0);
      root.resize(size);
      group.broadcast(std::span(root), 0);
      group.barrier();  // a device waits for the others only so long
      return device.join_group({root, group.rank(), group.size(), deadline, [&group] { return group.failure(); }});
    });
  }
  ~device_links() { ranks_->link_devices({}); }
  device_links(const device_links&) = delete;
  device_links& operator=(const device_links&) = delete;

 private:
  any_communicator* ranks_;
};

/// Do the ranks' devices exchange their memory without the host?
template <class Device>
bool linked(const Device& device, const any_communicator& c) {
  return !host_reads(device) && c.devices_linked();
}

/// `c` if it may have links, null for other engines.
template <communicator C>
any_communicator* links_of(C& c) {
  if constexpr (std::derived_from<C, any_communicator>)
    return &c;
  else
    return nullptr;
}
/// Copies n floats of device memory.
template <class Device>
void copy_values(Device& device, float* to, const float* from, std::size_t n) {
  const auto width = static_cast<extent_t>(n);
  if (n > 0) device.run(op::copy_rows{.y = to, .y_row = width, .x = from, .x_row = width, .count = 1, .width = width});
}

/// Sizes in bytes of `counts` values.
template <class T>
std::vector<std::size_t> bytes_of(std::span<const std::size_t> counts) {
  std::vector<std::size_t> bytes;
  for (const std::size_t n : counts) bytes.push_back(n * sizeof(T));
  return bytes;
}

/// all_gather_v in place: `values`, in device memory, has counts[r] values of each rank r, of which this rank's are
/// there.
template <class Device, wire T>
void gather_in_place(Device& device, any_communicator& c, T* values, std::span<const std::size_t> counts,
                     std::vector<T>& copy) {
  if (c.size() == 1) return;
  const auto self = counts.begin() + c.rank();
  const std::size_t first = std::accumulate(counts.begin(), self, std::size_t{0}),
                    all = std::accumulate(self, counts.end(), first);
  if (linked(device, c)) return c.device_all_gather(values + first, values, bytes_of<T>(counts));
  with_host_view(device, values, all, copy, [&](std::span<T> host) {
    const std::span<T> own = host.subspan(first, *self);
    if (!own.empty() && !host_reads(device)) device.download(own.data(), values + first, own.size_bytes());
    c.all_gather_v(std::span<const T>(own), host, counts);
  });
}

/// x[i] += y[i] for i < n, in device memory.
template <class Device>
void add_values(Device& device, float* x, const float* y, std::size_t n) {
  if (n > 0) device.run(op::add{.y = x, .a = x, .b = y, .n = static_cast<extent_t>(n)});
}

/// sum_rows() of reduction.hpp on device memory: the same bits, since float addition rounds in one way everywhere.
template <class Device>
void sum_rows(ranked, Device& device, float* rows, std::size_t ranks, std::size_t n) {
  for (std::size_t r = 1; r < ranks; ++r) add_values(device, rows, rows + r * n, n);
}
/// The same by pairwise summation.
template <class Device>
void sum_rows(tree, Device& device, float* rows, std::size_t ranks, std::size_t n) {
  for (std::size_t step = 1; step < ranks; step *= 2)
    for (std::size_t r = 0; r + step < ranks; r += 2 * step) add_values(device, rows + r * n, rows + (r + step) * n, n);
}

/// reduce_scatter_sum() of reduction.hpp on device memory; only if linked().
template <class Device, reduction_order Order>
void reduce_scatter_sum(Order order, Device& device, any_communicator& c, const float* in,
                        std::span<const std::size_t> counts, float* out) {
  const auto ranks = static_cast<std::size_t>(c.size());
  const std::size_t n = counts[static_cast<std::size_t>(c.rank())];
  buffer<float, Device> rows(device, ranks * n);
  const std::vector<std::size_t> received(ranks, n * sizeof(float));
  c.device_all_to_all(in, bytes_of<float>(counts), rows.data(), received);
  sum_rows(order, device, rows.data(), ranks, n);
  copy_values(device, out, rows.data(), n);
}

/// all_reduce_sum() of reduction.hpp on device memory: x [n]; only if linked().
template <class Device, reduction_order Order>
void all_reduce_sum(Order order, Device& device, any_communicator& c, float* x, std::size_t n) {
  const auto ranks = static_cast<std::size_t>(c.size());
  const std::size_t part = (n + ranks - 1) / ranks, first = std::min(n, static_cast<std::size_t>(c.rank()) * part);
  std::vector<std::size_t> counts;
  for (std::size_t r = 0; r < ranks; ++r) counts.push_back(std::min(n, (r + 1) * part) - std::min(n, r * part));
  reduce_scatter_sum(order, device, c, x, counts, x + first);
  c.device_all_gather(x + first, x, bytes_of<float>(counts));
}

}  // namespace parallel
RLCORE_END
