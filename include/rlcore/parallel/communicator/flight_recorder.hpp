// Flight recorder: the last collectives of a process, for debugging hangs and crashes.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/collective.hpp"
#include "rlcore/parallel/communicator/fixed_text.hpp"

RLCORE_BEGIN
namespace parallel {

/// Only the thread that enters collectives writes it; other threads and signal handlers may read it at any time.
/// Numbers the collectives of all groups of the process together, from 1.
class flight_recorder {
 public:
  static constexpr std::size_t kept = 64;

  static std::int64_t now() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  /// Records that a group of this many ranks enters a collective. Returns the number of the collective.
  std::uint64_t begin(const collective_call& call, int group) noexcept;
  void end() noexcept { latest().end.store(now(), std::memory_order_release); }

  /// Resets; call outside of collectives.
  void forget() noexcept { entered_.store(0, std::memory_order_release); }

  std::uint64_t entered() const noexcept { return entered_.load(std::memory_order_acquire); }
  /// The time since the current collective began, in nanoseconds; -1 outside of collectives.
  std::int64_t waiting() const noexcept;

  /// "in collective 42, all_gather (1000 elements of 4 bytes, root 0) of 3 ranks, for 2.5 s", or the last collective.
  void describe(fixed_text& to) const noexcept;
  /// One line per recorded collective, oldest first, with start time and duration.
  void dump(int file, int rank) const noexcept;

 private:
  struct entry {
    std::atomic<collective> operation{collective::barrier};
    std::atomic<std::uint64_t> count{0}, bytes{0};
    std::atomic<int> root{0}, group{0};
    std::atomic<std::int64_t> begin{0}, end{0};
  };
  entry& latest() noexcept { return entries_[entered_.load(std::memory_order_relaxed) % kept]; }
  void describe(fixed_text& to, std::uint64_t n) const noexcept;

  std::array<entry, kept> entries_{};
  std::atomic<std::uint64_t> entered_{0};
};

}  // namespace parallel
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PARALLEL)
RLCORE_BEGIN
namespace parallel {

RLCORE_INLINE std::uint64_t flight_recorder::begin(const collective_call& call, int group) noexcept {
  const std::uint64_t n = entered_.load(std::memory_order_relaxed) + 1;
  entry& e = entries_[n % kept];
  e.end.store(0, std::memory_order_release);
  e.operation.store(call.operation, std::memory_order_relaxed);
  e.count.store(call.count, std::memory_order_relaxed);
  e.bytes.store(call.of.bytes, std::memory_order_relaxed);
  e.root.store(call.root, std::memory_order_relaxed);
  e.group.store(group, std::memory_order_relaxed);
  e.begin.store(now(), std::memory_order_relaxed);
  entered_.store(n, std::memory_order_release);
  return n;
}

RLCORE_INLINE std::int64_t flight_recorder::waiting() const noexcept {
  const std::uint64_t n = entered();
  const entry& e = entries_[n % kept];
  if (n == 0 || e.end.load(std::memory_order_acquire) != 0) return -1;
  const std::int64_t begin = e.begin.load(std::memory_order_acquire);
  return entered() == n ? now() - begin : 0;  // otherwise a new collective has begun, possibly in the same slot
}

RLCORE_INLINE void flight_recorder::describe(fixed_text& to) const noexcept {
  const std::uint64_t n = entered();
  if (n == 0) {
    to.add("before its first collective");
    return;
  }
  const std::int64_t w = waiting();
  to.add(w >= 0 ? "in collective " : "after collective ");
  describe(to, n);
  if (w >= 0) to.add(", for ").add_seconds(w);
}

RLCORE_INLINE void flight_recorder::dump(int file, int rank) const noexcept {
  const std::uint64_t n = entered();
  for (std::uint64_t i = n >= kept ? n - kept + 1 : 1; i <= n; ++i) {
    const entry& e = entries_[i % kept];
    const std::int64_t begin = e.begin.load(std::memory_order_relaxed), end = e.end.load(std::memory_order_relaxed);
    fixed_text line;
    line.add("rank ").add(rank).add(" collective ");
    describe(line, i);
    line.add(", begun ").add_seconds(now() - begin).add(" ago, ");
    if (end == 0)
      line.add("not ended\n");
    else
      line.add("took ").add(static_cast<std::uint64_t>(end - begin) / 1000).add(" us\n");
    line.write_to(file);
  }
}

RLCORE_INLINE void flight_recorder::describe(fixed_text& to, std::uint64_t n) const noexcept {
  const entry& e = entries_[n % kept];
  const collective operation = e.operation.load(std::memory_order_relaxed);
  to.add(n).add(", ").add(name_of(operation));
  if (const std::uint64_t bytes = e.bytes.load(std::memory_order_relaxed); bytes != 0) {
    to.add(" (").add(e.count.load(std::memory_order_relaxed)).add(" elements of ").add(bytes).add(" bytes, ");
    to.add(operation == collective::shift ? "by " : "root ").add(e.root.load(std::memory_order_relaxed)).add(")");
  }
  to.add(" of ").add(e.group.load(std::memory_order_relaxed)).add(" ranks");
}

}  // namespace parallel
RLCORE_END
#endif
