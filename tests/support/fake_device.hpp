// A device whose memory the host must not read: host memory in truth, handed out under a mask, with every transfer
// counted. Generic code that dereferences a device pointer crashes on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string_view>
#include <vector>

/// Addresses are numbers beyond anything that the processor maps, 1 TiB apart for different allocations.
class fake_device {
 public:
  static constexpr bool host_readable = false;
  std::string_view name() const noexcept { return "fake"; }

  int allocations = 0, releases = 0, uploads = 0, downloads = 0, waits = 0;
  std::size_t uploaded_bytes = 0, downloaded_bytes = 0;

  void* allocate(std::size_t bytes) {
    ++allocations;
    next_ += std::uintptr_t{1} << 40;
    memory_.emplace(next_, std::vector<std::byte>(bytes));
    return reinterpret_cast<void*>(next_);
  }
  void release(void* p) noexcept { releases += static_cast<int>(memory_.erase(reinterpret_cast<std::uintptr_t>(p))); }
  void upload(void* to, const void* from, std::size_t bytes) {
    ++uploads;
    uploaded_bytes += bytes;
    std::memcpy(find(to, bytes), from, bytes);
  }
  void download(void* to, const void* from, std::size_t bytes) {
    ++downloads;
    downloaded_bytes += bytes;
    std::memcpy(to, find(from, bytes), bytes);
  }
  void fill_zero(void* p, std::size_t bytes) { std::memset(find(p, bytes), 0, bytes); }
  void wait() { ++waits; }

 private:
  std::byte* find(const void* p, std::size_t bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(p);
    auto block = memory_.upper_bound(address);
    if (block == memory_.begin()) throw std::out_of_range("not an address of this device");
    --block;
    const std::size_t offset = address - block->first;
    if (offset + bytes > block->second.size()) throw std::out_of_range("beyond the allocation");
    return block->second.data() + offset;
  }

  std::uintptr_t next_ = std::uintptr_t{1} << 62;
  std::map<std::uintptr_t, std::vector<std::byte>> memory_;
};
