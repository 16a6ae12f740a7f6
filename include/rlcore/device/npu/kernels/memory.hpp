// Address bookkeeping of device memory: allocations, ranges, cached derived values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

/// Bytes [begin, end) of device memory.
struct memory_range {
  std::uintptr_t begin = 0, end = 0;

  memory_range() = default;
  /// The `bytes` bytes at p.
  memory_range(const void* p, std::size_t bytes) : begin(reinterpret_cast<std::uintptr_t>(p)), end(begin + bytes) {}
  std::size_t bytes() const noexcept { return end - begin; }
  /// Whether the two ranges overlap.
  bool overlaps(const memory_range& other) const noexcept { return begin < other.end && other.begin < end; }
};

/// The allocations of a device. Kernels get only the start of a table of rows, but operators need its end: at most the
/// end of its allocation.
class allocations {
 public:
  /// Notes an allocation of `bytes` bytes at p, unless p is null.
  void add(const void* p, std::size_t bytes) {
    if (p != nullptr) ranges_[reinterpret_cast<std::uintptr_t>(p)] = bytes;
  }
  /// Removes the range that begins at p and returns it.
  memory_range remove(const void* p) noexcept {
    const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(p));
    if (found == ranges_.end()) return {};
    const memory_range range(p, found->second);
    ranges_.erase(found);
    return range;
  }
  /// From p to the end of its allocation. Throws std::invalid_argument if p is in no allocation.
  memory_range from(const void* p) const {
    const auto address = reinterpret_cast<std::uintptr_t>(p);
    auto found = ranges_.upper_bound(address);
    if (found == ranges_.begin() || (--found, address - found->first >= found->second))
      throw std::invalid_argument("rlcore: npu: a pointer that is not into memory of this device");
    return {p, found->second - (address - found->first)};
  }
  /// Whether a and b point into the same allocation. Throws std::invalid_argument if one of them is in no allocation.
  bool same(const void* a, const void* b) const { return from(a).end == from(b).end; }

 private:
  std::map<std::uintptr_t, std::size_t> ranges_;
};

/// Cached value derived from device memory, for later layers of the same pass: valid until the host writes one of its
/// sources. (No kernel writes indices, pages or rotary tables.)
class derived {
 public:
  bool valid() const noexcept { return valid_; }
  void forget() noexcept { valid_ = false; }
  /// Marks the value as valid, computed from `sources`.
  void made_from(std::initializer_list<memory_range> sources) {
    sources_.assign(sources);
    valid_ = true;
  }
  /// Invalidates the value if the written range overlaps a source.
  void written(const memory_range& where) noexcept {
    for (const memory_range& s : sources_)
      if (s.overlaps(where)) valid_ = false;
  }

 private:
  std::vector<memory_range> sources_;
  bool valid_ = false;
};

}  // namespace ascend::kernels
RLCORE_END
