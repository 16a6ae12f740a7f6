// Shared memory budget of requests; requests wait for free bytes.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/protocol/api_error.hpp"

RLCORE_BEGIN
namespace serving {

/// The total bytes of all holders. A request for more than the total waits until it holds all of them.
class byte_budget {
 public:
  /// A budget of `bytes` bytes.
  explicit byte_budget(std::size_t bytes) : all_(bytes), left_(bytes) {}

  /// Waits for its turn and for `bytes`; returns the bytes taken. Calls `connected` (if not empty) while waiting;
  /// throws client_gone if it returns false.
  std::size_t take(std::size_t bytes, const std::function<bool()>& connected = {});
  /// Returns the result of take(), or a part of it.
  void give_back(std::size_t bytes);

 private:
  using turns = std::set<std::uint64_t>;

  void leave(turns::iterator turn) {
    waiting_.erase(turn);
    freed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable freed_;
  const std::size_t all_;
  std::size_t left_;
  std::uint64_t last_ = 0;
  turns waiting_;
};

/// A part of the budget for as long as it lives.
class held_bytes {
 public:
  /// Waits until it has `bytes`, or the whole budget; see byte_budget::take(). The budget must outlive this object.
  held_bytes(byte_budget& budget, std::size_t bytes, const std::function<bool()>& connected = {})
      : budget_(budget), bytes_(budget.take(bytes, connected)) {}
  held_bytes(const held_bytes&) = delete;
  held_bytes& operator=(const held_bytes&) = delete;
  ~held_bytes() { budget_.give_back(bytes_); }

  /// Gives back everything above `bytes`.
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

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE std::size_t byte_budget::take(std::size_t bytes, const std::function<bool()>& connected) {
  bytes = std::min(bytes, all_);
  std::unique_lock lock(mutex_);
  const auto turn = waiting_.insert(waiting_.end(), ++last_);  // prevents starvation of large requests
  while (!freed_.wait_for(lock, std::chrono::milliseconds(50),
                          [&] { return turn == waiting_.begin() && left_ >= bytes; })) {
    lock.unlock();
    const bool there = !connected || connected();
    lock.lock();
    if (there) continue;
    leave(turn);
    throw client_gone();
  }
  left_ -= bytes;
  leave(turn);
  return bytes;
}

RLCORE_INLINE void byte_budget::give_back(std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    left_ += bytes;
  }
  freed_.notify_all();
}

}  // namespace serving
RLCORE_END
#endif
