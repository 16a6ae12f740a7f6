// Host view of device memory for collectives: the memory itself if the host can read it, otherwise a copy.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"
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

/// f(span) writes the new values of `to`; with `keep`, the span holds the current values on entry.
template <class Device, class T, class F>
void with_host_view(Device& device, T* to, std::size_t n, std::vector<T>& copy, bool keep, F&& f) {
  device.wait();
  if (host_reads(device)) return f(std::span<T>(to, n));
  copy.resize(n);
  if (keep && n > 0) device.download(copy.data(), to, n * sizeof(T));
  f(std::span<T>(copy));
  if (n > 0) device.upload(to, copy.data(), n * sizeof(T));
}

}  // namespace parallel
RLCORE_END
