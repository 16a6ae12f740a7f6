// The last collectives of a rank, readable by a watchdog and from a signal handler.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"

RLCORE_BEGIN
namespace parallel {

/// Up to 511 characters; longer text is truncated. Every member is async-signal-safe.
class fixed_text {
 public:
  /// Appends a null-terminated string.
  fixed_text& add(const char* s) noexcept {
    while (*s != '\0' && size_ + 1 < sizeof(data_)) data_[size_++] = *s++;
    return *this;
  }
  /// Appends a number in decimal.
  fixed_text& add(std::uint64_t n) noexcept {
    char digits[21];
    std::size_t at = sizeof(digits) - 1;
    digits[at] = '\0';
    do {
      digits[--at] = static_cast<char>('0' + n % 10);
      n /= 10;
    } while (n != 0);
    return add(digits + at);
  }
  /// Appends a signed number in decimal.
  fixed_text& add(int n) noexcept {
    if (n < 0) add("-");
    return add(static_cast<std::uint64_t>(n < 0 ? -static_cast<long long>(n) : n));
  }
  /// Appends seconds with one decimal.
  fixed_text& add_seconds(std::int64_t nanoseconds) noexcept {
    const auto tenths = static_cast<std::uint64_t>(nanoseconds < 0 ? 0 : nanoseconds) / 100'000'000;
    return add(tenths / 10).add(".").add(tenths % 10).add(" s");
  }
  /// Writes the text to a file descriptor; stops at the first error.
  void write_to(int file) const noexcept {
    std::size_t done = 0;
    while (done < size_) {
      const ssize_t n = ::write(file, data_ + done, size_ - done);
      if (n <= 0) return;
      done += static_cast<std::size_t>(n);
    }
  }
  /// Null-terminated.
  const char* text() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  char data_[512] = {};
  std::size_t size_ = 0;
};

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
  /// `patience`: how many deadlines it may take.
  std::uint64_t begin(const collective_call& call, int group, int patience = 1) noexcept;
  void end() noexcept { latest().end.store(now(), std::memory_order_release); }

  /// Resets; call outside of collectives.
  void forget() noexcept { entered_.store(0, std::memory_order_release); }

  std::uint64_t entered() const noexcept { return entered_.load(std::memory_order_acquire); }
  /// The time since the current collective began, in nanoseconds; -1 outside of collectives.
  std::int64_t waiting() const noexcept;
  /// How many deadlines the current collective may take.
  int patience() const noexcept { return entries_[entered() % kept].patience.load(std::memory_order_relaxed); }

  /// "in collective 42, all_gather (1000 elements of 4 bytes, root 0) of 3 ranks, for 2.5 s", or the last collective.
  void describe(fixed_text& to) const noexcept;
  /// One line per recorded collective, oldest first, with start time and duration.
  void dump(int file, int rank) const noexcept;

 private:
  struct entry {
    std::atomic<collective> operation{collective::barrier};
    std::atomic<std::uint64_t> count{0}, bytes{0};
    std::atomic<int> root{0}, group{0}, patience{1};
    std::atomic<std::int64_t> begin{0}, end{0};
  };
  entry& latest() noexcept { return entries_[entered_.load(std::memory_order_relaxed) % kept]; }
  void describe(fixed_text& to, std::uint64_t n) const noexcept;

  std::array<entry, kept> entries_{};
  std::atomic<std::uint64_t> entered_{0};
};

/// One line per rank of this host, in shared memory. All functions on a placed board are async-signal-safe.
class host_board {
 public:
  /// The last reported state of a rank.
  enum state : int {
    absent,   ///< not started
    working,  ///< running; it is lost if its process disappears
    failing,  ///< reports its own failure
    ended,    ///< finished
  };
  /// The state of one rank: its rank in the job, its process id, the last call, and the number of collectives, without
  /// messages.
  struct line {
    std::atomic<int> state{absent}, rank{-1}, process{0}, operation{0};  // operation: the last call
    std::atomic<std::uint64_t> collectives{0};
  };
  /// Shared by all ranks of the host: has a rank reported the failure to the user?
  struct head {
    std::atomic<int> told{0};
  };
  static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);

  /// The bytes of a board for this many ranks: a header and one line per rank.
  static constexpr std::size_t bytes(int ranks) noexcept {
    return sizeof(line) * (static_cast<std::size_t>(ranks) + 1);
  }

  /// A board for this process only.
  host_board() : memory_(bytes(1)) { take_down(); }
  host_board(const host_board&) = delete;
  host_board& operator=(const host_board&) = delete;
  /// Moves the board to `memory`, bytes(ranks) zeros that all ranks of the host have mapped. This process is local rank
  /// `self`.
  void place(void* memory, int ranks, int self) noexcept {
    head_ = static_cast<head*>(memory);
    lines_ = reinterpret_cast<line*>(static_cast<std::byte*>(memory) + sizeof(line));
    ranks_ = ranks;
    self_ = self;
  }
  void take_down() noexcept { place(memory_.data(), 1, 0); }
  /// Writes this rank's line: its rank in the job, its process id, and the state `working`.
  void come(int rank, int process) noexcept {
    self().rank = rank;
    self().process = process;
    self().state = working;
  }

  line& self() noexcept { return lines_[self_]; }
  const line& self() const noexcept { return lines_[self_]; }
  int ranks() const noexcept { return ranks_; }
  /// The line of a rank, by its local rank.
  const line& of(int rank_on_host) const noexcept { return lines_[rank_on_host]; }

  /// True for the first rank of this host that calls it. This rank reports to the user; the other ranks stay silent.
  bool tell() noexcept { return head_->told.exchange(1) == 0; }
  bool anybody_fails() const noexcept {
    for (int r = 0; r < ranks_; ++r)
      if (lines_[r].state == failing) return true;
    return false;
  }
  /// A rank whose process died before it finished, or null.
  const line* vanished() const noexcept {
    for (int r = 0; r < ranks_; ++r)
      if (lines_[r].state == working && ::kill(lines_[r].process, 0) != 0 && errno == ESRCH &&
          lines_[r].state == working)  // it has not finished in the meantime
        return &lines_[r];
    return nullptr;
  }

 private:
  std::vector<std::byte> memory_;
  head* head_ = nullptr;
  line* lines_ = nullptr;
  int ranks_ = 1, self_ = 0;
};

}  // namespace parallel
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PARALLEL)
RLCORE_BEGIN
namespace parallel {

RLCORE_INLINE std::uint64_t flight_recorder::begin(const collective_call& call, int group, int patience) noexcept {
  const std::uint64_t n = entered_.load(std::memory_order_relaxed) + 1;
  entry& e = entries_[n % kept];
  e.end.store(0, std::memory_order_release);
  e.operation.store(call.operation, std::memory_order_relaxed);
  e.count.store(call.count, std::memory_order_relaxed);
  e.bytes.store(call.of.bytes, std::memory_order_relaxed);
  e.root.store(call.root, std::memory_order_relaxed);
  e.group.store(group, std::memory_order_relaxed);
  e.patience.store(patience, std::memory_order_relaxed);
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
    to.add(word_of_root(operation)).add(e.root.load(std::memory_order_relaxed)).add(")");
  }
  to.add(" of ").add(e.group.load(std::memory_order_relaxed)).add(" ranks");
}

}  // namespace parallel
RLCORE_END
#endif
