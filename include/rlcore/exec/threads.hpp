// The executor that is a small pool of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN

/// A pool of `count` threads, the caller included (0: one per core). Work is claimed in chunks by ticket, so the caller
/// never waits for a helper that has not woken up; helpers spin for some 20 microseconds and then sleep. A call from
/// inside a task, or while another thread uses the pool, runs in the calling thread alone: pools do not nest.
class threads {
 public:
  explicit threads(int count = 0) {
    if (count <= 0) count = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    helpers_.reserve(static_cast<std::size_t>(count - 1));
    for (int i = 1; i < count; ++i) helpers_.emplace_back([this] { help(); });
  }
  threads(const threads&) = delete;
  threads& operator=(const threads&) = delete;
  ~threads() {
    stopping_.store(true);
    round_.fetch_add(1);
    round_.notify_all();
    for (std::thread& t : helpers_) t.join();
  }

  std::size_t concurrency() const noexcept { return helpers_.size() + 1; }

  template <class F>
  void for_each(std::size_t count, F&& f) const {
    std::unique_lock<std::mutex> mine(in_use_, std::try_to_lock);
    if (count <= 1 || helpers_.empty() || inside_ || !mine.owns_lock()) {
      for (std::size_t i = 0; i < count; ++i) f(i);
      return;
    }
    using Function = std::remove_reference_t<F>;
    call_ = [](void* context, std::size_t i) { (*static_cast<Function*>(context))(i); };
    context_ = const_cast<void*>(static_cast<const void*>(std::addressof(f)));
    run(count);
  }

 private:
  // Helpers may look at a round only between enter and leave: the caller closes the door (adds `closed` to `present_`)
  // before it returns and waits until everybody inside has left, so a late helper never sees a dead function.
  static constexpr std::int64_t closed = std::int64_t{1} << 40;

  void run(std::size_t count) const {
    count_ = count;
    chunk_ = std::max<std::size_t>(1, count / (8 * concurrency()));
    next_.store(0, std::memory_order_relaxed);
    failed_at_ = count;
    failure_ = nullptr;
    present_.fetch_sub(closed);  // open the door
    round_.fetch_add(1);
    round_.notify_all();
    work();
    present_.fetch_add(closed);
    for (int spin = 0; present_.load() != closed; ++spin)
      if (spin > spins) std::this_thread::yield();
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  void work() const {
    inside_ = true;
    for (;;) {
      const std::size_t first = next_.fetch_add(chunk_, std::memory_order_relaxed);
      if (first >= count_) break;
      for (std::size_t i = first; i < std::min(first + chunk_, count_); ++i) {
        try {
          call_(context_, i);
        } catch (...) {
          const std::lock_guard<std::mutex> lock(failure_lock_);
          if (i < failed_at_) failed_at_ = i, failure_ = std::current_exception();
        }
      }
    }
    inside_ = false;
  }

  void help() const {
    std::uint64_t seen = 0;
    while (!stopping_.load()) {
      if (present_.fetch_add(1) < closed) work();
      present_.fetch_sub(1);
      int spin = 0;
      while (round_.load() == seen && spin < spins) ++spin;
      if (round_.load() == seen) round_.wait(seen);
      seen = round_.load();
    }
  }

  static constexpr int spins = 20000;
  static inline thread_local bool inside_ = false;

  mutable std::mutex in_use_, failure_lock_;
  mutable void (*call_)(void*, std::size_t) = nullptr;
  mutable void* context_ = nullptr;
  mutable std::size_t count_ = 0, chunk_ = 1, failed_at_ = 0;
  mutable std::exception_ptr failure_;
  mutable std::atomic<std::size_t> next_{0};
  mutable std::atomic<std::int64_t> present_{closed};
  mutable std::atomic<std::uint64_t> round_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> helpers_;
};

RLCORE_END
