// Device address space of the emulator: the host can store device addresses but not dereference them.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

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

}  // namespace ascend::emulated
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated {

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

}  // namespace ascend::emulated
RLCORE_END
#endif
