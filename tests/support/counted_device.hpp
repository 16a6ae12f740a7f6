// A device that counts what it gives out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <unordered_map>

#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

/// Bytes that are given out now, and at most; and how often memory was asked for.
struct memory_counts {
  std::size_t live = 0, most = 0, allocations = 0;
};

class counted_cpu : public rlcore::cpu {
 public:
  explicit counted_cpu(memory_counts& counts, rlcore::compute type = rlcore::compute::float32)
      : cpu(1, "", type), counts_(counts) {}
  void* allocate(std::size_t bytes) {
    ++counts_.allocations;
    counts_.live += bytes;
    counts_.most = std::max(counts_.most, counts_.live);
    void* p = cpu::allocate(bytes);
    sizes_[p] = bytes;
    return p;
  }
  void release(void* p) noexcept {
    const auto known = sizes_.find(p);
    counts_.live -= known->second;
    sizes_.erase(known);
    cpu::release(p);
  }

 private:
  memory_counts& counts_;
  std::unordered_map<void*, std::size_t> sizes_;
};

/// The same as a device whose memory the host cannot read, which multiplies bfloat16.
class counted_remote : public counted_cpu {
 public:
  static constexpr bool host_readable = false;
  explicit counted_remote(memory_counts& counts) : counted_cpu(counts, rlcore::compute::bfloat16) {}
};

/// The counting device as an any_device, for which models are compiled already.
struct counted_device {
  memory_counts memory;
  rlcore::any_device_of<counted_cpu> device{memory};
};
