// Memory that requests share: who wants more than is left waits.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <mutex>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace serving {

/// Bytes that all holders together may have. Whoever asks for more than there are waits until he has all of them.
class byte_budget {
 public:
  /// Of so many bytes.
  explicit byte_budget(std::size_t bytes) : all_(bytes), left_(bytes) {}

  /// Waits for its turn and for `bytes`; the bytes taken.
  std::size_t take(std::size_t bytes) {
    bytes = std::min(bytes, all_);
    std::unique_lock lock(mutex_);
    const std::size_t turn = next_turn_++;  // a large one does not wait for ever behind small ones
    freed_.wait(lock, [&] { return turn == turn_ && left_ >= bytes; });
    left_ -= bytes;
    ++turn_;
    freed_.notify_all();
    return bytes;
  }
  /// What take() returned, or a part of it.
  void give_back(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      left_ += bytes;
    }
    freed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  const std::size_t all_;
  std::size_t left_, next_turn_ = 0, turn_ = 0;
};

/// A part of the budget for as long as it lives.
class held_bytes {
 public:
  /// Waits until it has `bytes`, or all that there are. The budget has to outlive it.
  held_bytes(byte_budget& budget, std::size_t bytes) : budget_(budget), bytes_(budget.take(bytes)) {}
  held_bytes(const held_bytes&) = delete;
  held_bytes& operator=(const held_bytes&) = delete;
  ~held_bytes() { budget_.give_back(bytes_); }

  /// Gives back what is more than `bytes`.
  void keep(std::size_t bytes) {
    const std::size_t more = bytes_ - std::min(bytes, bytes_);
    bytes_ -= more;
    budget_.give_back(more);
  }

 private:
  byte_budget& budget_;
  std::size_t bytes_;
};

}  // namespace serving
RLCORE_END
