// A CPU that counts the bytes it has given out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "rlcore/device/cpu.hpp"

class counted_cpu : public rlcore::cpu {
 public:
  counted_cpu() : cpu(1) {}
  void* allocate(std::size_t bytes) {
    live += bytes;
    most = std::max(most, live);
    void* p = cpu::allocate(bytes);
    sizes.emplace_back(p, bytes);
    return p;
  }
  void release(void* p) noexcept {
    const auto known = std::find_if(sizes.begin(), sizes.end(), [p](const auto& s) { return s.first == p; });
    live -= known->second;
    sizes.erase(known);
    cpu::release(p);
  }
  std::size_t live = 0, most = 0;
  std::vector<std::pair<void*, std::size_t>> sizes;
};
