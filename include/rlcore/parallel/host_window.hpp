// Device memory as collectives see it: itself, where the host can read it, else through a copy.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace parallel {

/// May the host read and write this device's memory? Known when compiled, or asked of the device.
template <class Device>
bool host_reads(const Device& device) {
  if constexpr (Device::host_readable)
    return true;
  else if constexpr (requires { device.host_memory(); })
    return device.host_memory();
  else
    return false;
}

/// What is at `from` now, for the host; `copy` may be used for it.
template <class Device, class T>
const T* host_view(Device& device, const T* from, std::size_t n, std::vector<T>& copy) {
  device.wait();
  if (host_reads(device)) return from;
  copy.resize(n);
  if (n > 0) device.download(copy.data(), from, n * sizeof(T));
  return copy.data();
}

/// f(span) fills what will be at `to`; with `keep`, it finds there what is there now.
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
