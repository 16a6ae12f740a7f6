// Device memory allocator of the emulator, one per device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/emulator/address_space.hpp"
#include "rlcore/emulator/block.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// Allocates and frees addresses; the caller holds the mutex of the machine's memory. Blocks start at odd multiples of
/// 64 bytes: the guaranteed alignment and no more.
class device_memory {
 public:
  static constexpr std::size_t granule = 128;

  /// Manages the `bytes` bytes of `space` from the address `first` on. Freed memory is reused once more than
  /// `quarantine` bytes of it wait, or when nothing else is left.
  device_memory(const address_space& space, int device, std::uintptr_t first, std::size_t bytes, std::size_t quarantine)
      : space_(space), device_(device), first_(first), bytes_(bytes), quarantine_(quarantine) {
    free_.emplace(first, bytes / granule * granule);
  }

  /// Null if no free range is large enough.
  std::shared_ptr<block> take(std::size_t bytes);

  /// The block, freed or not, whose bytes or padding hold the address; null if none does.
  std::shared_ptr<block> find(std::uintptr_t address) const;

  /// Takes back a freed block that no task uses any more.
  void give_back(const std::shared_ptr<block>& b) {
    quarantined_.push_back(b);
    quarantined_bytes_ += chunk_of(b->room);
    while (quarantined_bytes_ > quarantine_) recycle_oldest();
  }

  /// Whether the address is in this device's memory.
  bool holds(std::uintptr_t address) const noexcept { return address >= first_ && address - first_ < bytes_; }
  std::size_t total() const noexcept { return bytes_; }
  std::size_t available() const noexcept { return bytes_ - (taken_ - quarantined_bytes_); }

  /// Calls f(block) for every block that is not freed.
  template <class F>
  void each_live(F&& f) const {
    for (const auto& [address, b] : blocks_)
      if (!b->freed) f(b);
  }

  /// Calls f(block) for every block, freed or not, whose memory has not been reused.
  template <class F>
  void each(F&& f) const {
    for (const auto& [address, b] : blocks_) f(b);
  }

  /// Drops all blocks.
  void clear();

 private:
  static constexpr std::size_t chunk_of(std::size_t room) {
    return (room + granule / 2 + granule - 1) / granule * granule;
  }
  using places = std::map<std::uintptr_t, std::size_t>;

  places::iterator first_fit(std::size_t chunk) {
    auto place = free_.begin();
    while (place != free_.end() && place->second < chunk) ++place;
    return place;
  }

  void recycle_oldest();

  const address_space& space_;
  int device_;
  std::uintptr_t first_;
  std::size_t bytes_, quarantine_, taken_ = 0, quarantined_bytes_ = 0;
  places free_;
  std::map<std::uintptr_t, std::shared_ptr<block>> blocks_;  ///< including those in quarantine
  std::deque<std::shared_ptr<block>> quarantined_;
};

}  // namespace ascend::emulated
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated {

RLCORE_INLINE std::shared_ptr<block> device_memory::take(std::size_t bytes) {
  if (bytes > bytes_) return nullptr;
  const std::size_t room = (bytes + 31) / 32 * 32 + 32;  // kernels may read past the end: part of the contract
  const std::size_t chunk = chunk_of(room);
  auto place = first_fit(chunk);
  while (place == free_.end() && !quarantined_.empty()) {
    recycle_oldest();
    place = first_fit(chunk);
  }
  if (place == free_.end()) return nullptr;
  const auto [start, size] = *place;
  free_.erase(place);
  if (size > chunk) free_.emplace(start + chunk, size - chunk);
  taken_ += chunk;
  auto result = std::make_shared<block>();
  *result = {start + granule / 2, bytes, device_, room, 0, false};
  blocks_.emplace(result->address, result);
  return result;
}

RLCORE_INLINE std::shared_ptr<block> device_memory::find(std::uintptr_t address) const {
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return nullptr;
  const std::shared_ptr<block>& b = std::prev(after)->second;
  return address < b->address + b->room ? b : nullptr;
}

RLCORE_INLINE void device_memory::clear() {
  blocks_.clear();
  quarantined_.clear();
  free_.clear();
  free_.emplace(first_, bytes_ / granule * granule);
  taken_ = quarantined_bytes_ = 0;
  space_.forget(first_, bytes_);
}

RLCORE_INLINE void device_memory::recycle_oldest() {
  const std::shared_ptr<block> b = std::move(quarantined_.front());
  quarantined_.pop_front();
  blocks_.erase(b->address);
  std::uintptr_t start = b->address - granule / 2;
  std::size_t size = chunk_of(b->room);
  quarantined_bytes_ -= size;
  taken_ -= size;
  if (size >= std::size_t{1} << 16) space_.forget(b->address, b->room);
  auto next = free_.lower_bound(start);
  if (next != free_.end() && next->first == start + size) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == start) {
      before->second += size;
      return;
    }
  }
  free_.emplace(start, size);
}

}  // namespace ascend::emulated
RLCORE_END
#endif
