// Persistent rank threads: a thread pool of ranks that is reused across calls.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/rendezvous.hpp"
#include "rlcore/parallel/communicator/threads.hpp"

RLCORE_BEGIN
namespace parallel {

/// Repeated run_ranks() without starting threads for each call: a call may be as short as a forward pass. A failure
/// affects one call; the next call starts clean.
class standing_ranks {
 public:
  /// `deadline` is the timeout of collectives.
  explicit standing_ranks(int size, std::chrono::milliseconds deadline = std::chrono::minutes(10));
  standing_ranks(const standing_ranks&) = delete;
  standing_ranks& operator=(const standing_ranks&) = delete;
  ~standing_ranks() { stop(); }

  int size() const noexcept { return static_cast<int>(members_.size()); }
  /// The communicator of this rank. Only this rank may use its collectives, and only inside run().
  thread_rank& operator[](int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  /// Calls f(rank) in all ranks concurrently, rank 0 in the calling thread, and returns when all have returned. If a
  /// rank throws, the collectives of the other ranks throw communication_error, and the caller gets the first
  /// exception. If a rank then does not return within another deadline, the process exits. Not thread-safe.
  void run(const std::function<void(int)>& f);

 private:
  struct call {
    const std::function<void(int)>* what = nullptr;
    std::shared_ptr<common_fate> fate{};  ///< each rank keeps it alive until its release
  };

  static std::size_t checked(int size) {
    if (size < 1)
      throw std::invalid_argument("rlcore: standing_ranks: " + std::to_string(size) + " ranks, expected 1 or more");
    return static_cast<std::size_t>(size);
  }
  void meet(const std::shared_ptr<common_fate>& fate) {
    const auto place = std::make_shared<rendezvous>(fate, members_);
    for (const int rank : members_) (*this)[rank] = thread_rank(place, rank);  // referenced by other objects
  }
  void work(int rank);
  void stop();

  const std::chrono::milliseconds deadline_;
  std::vector<int> members_;
  std::vector<thread_rank> ranks_;
  std::mutex mutex_;
  std::condition_variable begun_;
  call call_;
  std::uint64_t calls_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace parallel
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PARALLEL)
RLCORE_BEGIN
namespace parallel {

RLCORE_INLINE standing_ranks::standing_ranks(int size, std::chrono::milliseconds deadline)
    : deadline_(deadline), members_(checked(size)), ranks_(members_.size(), thread_rank(nullptr, 0)) {
  std::iota(members_.begin(), members_.end(), 0);
  meet(std::make_shared<common_fate>(size, deadline));
  try {
    for (int rank = 1; rank < size; ++rank) threads_.emplace_back([this, rank] { work(rank); });
  } catch (...) {  // thread creation failed
    stop();
    throw;
  }
}

RLCORE_INLINE void standing_ranks::run(const std::function<void(int)>& f) {
  const auto fate = std::make_shared<common_fate>(size(), deadline_);
  {
    const std::lock_guard lock(mutex_);
    meet(fate);
    call_ = {&f, fate};
    ++calls_;
  }
  begun_.notify_all();
  detail::depart_after(*fate, 0, [&] { f(0); });
  detail::end_if_stuck(*fate);
  if (fate->first) std::rethrow_exception(fate->first);
}

RLCORE_INLINE void standing_ranks::work(int rank) {
  for (std::uint64_t done = 0;; ++done) {
    call now;
    {
      std::unique_lock lock(mutex_);
      begun_.wait(lock, [&] { return stopping_ || calls_ > done; });
      if (stopping_) return;
      now = call_;
    }
    detail::depart_after(*now.fate, rank, [&] { (*now.what)(rank); });
  }
}

RLCORE_INLINE void standing_ranks::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  begun_.notify_all();
  for (std::thread& t : threads_) t.join();
}

}  // namespace parallel
RLCORE_END
#endif
