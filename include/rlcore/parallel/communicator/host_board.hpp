// Shared memory in which the ranks of one host see each other's state without messages.
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

/// One line per rank of this host, in memory that all of them have mapped. All functions on a placed board are
/// async-signal-safe.
class host_board {
 public:
  /// What a rank of the host has last said of itself.
  enum state : int {
    absent,   ///< has not come yet
    working,  ///< is to be missed if it vanishes
    failing,  ///< says itself what is wrong
    ended,    ///< has done its work
  };
  /// What one rank shows: its number in the job, its process id, and the last collective with its number.
  struct line {
    std::atomic<int> state{absent}, rank{-1}, process{0}, operation{0};  // operation: the last collective entered
    std::atomic<std::uint64_t> collectives{0};
  };
  /// What all ranks of the host share: has one of them told the user?
  struct head {
    std::atomic<int> told{0};
  };
  static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);

  /// The memory of a board with so many ranks: a line each and the head.
  static constexpr std::size_t bytes(int ranks) noexcept {
    return sizeof(line) * (static_cast<std::size_t>(ranks) + 1);
  }

  /// A board of this process alone.
  host_board() : memory_(bytes(1)) { take_down(); }
  host_board(const host_board&) = delete;
  host_board& operator=(const host_board&) = delete;
  /// Moves the board to `memory`, bytes(ranks) zeros that all ranks of the host have mapped. This process is rank
  /// `self` of them.
  void place(void* memory, int ranks, int self) noexcept {
    head_ = static_cast<head*>(memory);
    lines_ = reinterpret_cast<line*>(static_cast<std::byte*>(memory) + sizeof(line));
    ranks_ = ranks;
    self_ = self;
  }
  void take_down() noexcept { place(memory_.data(), 1, 0); }
  /// Writes this rank's line: its number in the job and its process id, now `working`.
  void come(int rank, int process) noexcept {
    self().rank = rank;
    self().process = process;
    self().state = working;
  }

  line& self() noexcept { return lines_[self_]; }
  const line& self() const noexcept { return lines_[self_]; }
  int ranks() const noexcept { return ranks_; }
  /// The line of a rank, by its number on this host.
  const line& of(int rank_on_host) const noexcept { return lines_[rank_on_host]; }

  /// True for the first rank of this host that asks. That rank tells the user, and the others need not.
  bool tell() noexcept { return head_->told.exchange(1) == 0; }
  bool anybody_fails() const noexcept {
    for (int r = 0; r < ranks_; ++r)
      if (lines_[r].state == failing) return true;
    return false;
  }
  /// A rank whose process is gone before it ended, or null.
  const line* vanished() const noexcept {
    for (int r = 0; r < ranks_; ++r)
      if (lines_[r].state == working && ::kill(lines_[r].process, 0) != 0 && errno == ESRCH &&
          lines_[r].state == working)  // nor has it ended while we looked
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
