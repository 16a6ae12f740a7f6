// Device memory of the emulator: address space, blocks, allocations and transfers.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// Memory of a device, or pinned memory of the host (device -1). The mutex of the machine's memory guards all members
/// but the first three.
struct block {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;  ///< as requested
  int device = -1;
  std::size_t room = 0;  ///< with padding
  int users = 0;         ///< running tasks and copies that use it
  bool freed = false;
};

/// The blocks that a task or a copy uses. They keep their contents until it ends, even if the program frees them.
struct memory_use {
  int device = -1;  ///< where the task runs; -1: on the host
  std::vector<std::shared_ptr<block>> blocks;

  /// Whether b is one of the blocks.
  bool has(const block* b) const noexcept {
    return std::any_of(blocks.begin(), blocks.end(), [&](const auto& other) { return other.get() == b; });
  }
};

/// The blocks in use by the calling thread's task; null if it runs no task.
inline memory_use*& current_use() {
  thread_local memory_use* use = nullptr;
  return use;
}

// A program that copies without waiting for a stream is wrong, but the machine does not stop it, and tests of the
// emulator do it on purpose. Race detectors should report races of kernels, not these, so copies are atomic under them.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool race_detector = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool race_detector = true;
#else
inline constexpr bool race_detector = false;
#endif
#else
inline constexpr bool race_detector = false;
#endif

/// memmove of a copy engine.
void move_bytes(std::byte* to, const std::byte* from, std::size_t bytes);

/// memset of a copy engine.
void fill_bytes(std::byte* to, std::byte value, std::size_t bytes);

/// Two reservations of address space of one size. Device addresses lie in the first, which the host can neither read
/// nor write; their contents in the second, at a constant distance.
class address_space {
 public:
  /// Reserves `bytes` for each range; keeps the current ranges if the size is unchanged. False if the host has not
  /// enough.
  bool reserve(std::size_t bytes);

  std::uintptr_t first() const noexcept { return first_.load(std::memory_order_relaxed); }
  /// Whether `p` is a device address, allocated or not.
  bool contains(const void* p) const noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(p);
    return address >= first_.load(std::memory_order_relaxed) && address < last_.load(std::memory_order_acquire);
  }
  /// Where the host finds the contents of a device address.
  std::byte* contents(std::uintptr_t device_address) const noexcept { return shadow_ + (device_address - first()); }

  /// Returns pages to the host and drops their contents. Only whole pages inside the range.
  void forget(std::uintptr_t device_address, std::size_t bytes) const noexcept;

  // Reports when the host touches device memory.
  void watch();
  /// Restores the previous signal handler, unless another one has been installed since.
  void unwatch();

 private:
  static std::atomic<const address_space*>& watched() {
    static std::atomic<const address_space*> space{nullptr};
    return space;
  }
  static struct sigaction& previous_action() {
    static struct sigaction action = {};
    return action;
  }

  /// Async-signal-safe.
  static void on_fault(int number, siginfo_t* info, void* machine_context);

  void release() noexcept;

  std::atomic<std::uintptr_t> first_{0}, last_{0};
  std::byte* shadow_ = nullptr;
  std::size_t bytes_ = 0;
  bool watching_ = false;
};

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

RLCORE_INLINE void move_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if constexpr (race_detector) {
    auto* const target = reinterpret_cast<unsigned char*>(to);
    const auto* const source = reinterpret_cast<const unsigned char*>(from);
    const auto move = [&](std::size_t i) {
      __atomic_store_n(target + i, __atomic_load_n(source + i, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    };
    if (to < from) {
      for (std::size_t i = 0; i < bytes; ++i) move(i);
    } else {
      for (std::size_t i = bytes; i-- > 0;) move(i);
    }
  } else {
    std::memmove(to, from, bytes);
  }
}

RLCORE_INLINE void fill_bytes(std::byte* to, std::byte value, std::size_t bytes) {
  if constexpr (race_detector) {
    auto* const target = reinterpret_cast<unsigned char*>(to);
    for (std::size_t i = 0; i < bytes; ++i)
      __atomic_store_n(target + i, static_cast<unsigned char>(value), __ATOMIC_RELAXED);
  } else {
    std::memset(to, static_cast<int>(value), bytes);
  }
}

RLCORE_INLINE bool address_space::reserve(std::size_t bytes) {
  if (bytes == bytes_) return true;
  release();
  void* front = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (front == MAP_FAILED) return false;
  void* back = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (back == MAP_FAILED) {
    munmap(front, bytes);
    return false;
  }
  madvise(back, bytes, MADV_DONTDUMP);
  madvise(back, bytes, MADV_HUGEPAGE);
  first_.store(reinterpret_cast<std::uintptr_t>(front), std::memory_order_relaxed);
  last_.store(reinterpret_cast<std::uintptr_t>(front) + bytes, std::memory_order_release);
  shadow_ = static_cast<std::byte*>(back);
  bytes_ = bytes;
  return true;
}

RLCORE_INLINE void address_space::forget(std::uintptr_t device_address, std::size_t bytes) const noexcept {
  constexpr std::uintptr_t page = 4096;
  const auto begin = (reinterpret_cast<std::uintptr_t>(contents(device_address)) + page - 1) & ~(page - 1);
  const auto end = (reinterpret_cast<std::uintptr_t>(contents(device_address)) + bytes) & ~(page - 1);
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

RLCORE_INLINE void address_space::watch() {
  struct sigaction action = {};
  action.sa_sigaction = &address_space::on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  watched().store(this, std::memory_order_release);
  watching_ = sigaction(SIGSEGV, &action, &previous_action()) == 0;
}

RLCORE_INLINE void address_space::unwatch() {
  if (!watching_) return;
  struct sigaction now = {};
  if (sigaction(SIGSEGV, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
      now.sa_sigaction == &address_space::on_fault)
    sigaction(SIGSEGV, &previous_action(), nullptr);
  watched().store(nullptr, std::memory_order_release);
  watching_ = false;
}

RLCORE_INLINE void address_space::on_fault(int number, siginfo_t* info, void* machine_context) {
  const address_space* space = watched().load(std::memory_order_acquire);
  if (space != nullptr && space->contains(info->si_addr)) {
    char line[] = "rlcore: the host touched device memory at 0x0000000000000000; download() it first\n";
    char* digit = line + sizeof("rlcore: the host touched device memory at 0x0000000000000000") - 2;
    for (auto a = reinterpret_cast<std::uintptr_t>(info->si_addr); a != 0; a >>= 4)
      *digit-- = "0123456789abcdef"[a & 15];
    [[maybe_unused]] const auto written = write(2, line, sizeof(line) - 1);
  }
  const struct sigaction& earlier = previous_action();
  if ((earlier.sa_flags & SA_SIGINFO) != 0 && earlier.sa_sigaction != nullptr) {
    earlier.sa_sigaction(number, info, machine_context);
  } else if (earlier.sa_handler != SIG_DFL && earlier.sa_handler != SIG_IGN) {
    earlier.sa_handler(number);
  } else {  // the instruction faults again, now to the system's own end
    struct sigaction system = {};
    system.sa_handler = SIG_DFL;
    sigaction(SIGSEGV, &system, nullptr);
  }
}

RLCORE_INLINE void address_space::release() noexcept {
  if (bytes_ == 0) return;
  munmap(reinterpret_cast<void*>(first()), bytes_);
  munmap(shadow_, bytes_);
  first_.store(0, std::memory_order_relaxed);
  last_.store(0, std::memory_order_release);
  bytes_ = 0;
}

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
