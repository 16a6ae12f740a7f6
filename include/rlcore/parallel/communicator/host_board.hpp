// Shared-memory board with the state of all ranks of one host.
#pragma once

#include <signal.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

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
  /// The state of one rank: its rank in the job, its process id, and the last collective with its number.
  struct line {
    std::atomic<int> state{absent}, rank{-1}, process{0}, operation{0};  // operation: the last collective entered
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
