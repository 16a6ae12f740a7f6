// Thread-pool executor, its pool, and the synchronization between them. Threads, a monotonic clock and the number of
// cores come without <thread>, <mutex> and <chrono>, which would be a third of the compile time of a program that
// computes a loss.
#pragma once

#include <pthread.h>
#include <time.h>
#include <unistd.h>
#include <atomic>
#include <cfenv>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace system_threads {

/// Runs `body(context)` until it returns; the owner joins exactly once.
class system_thread {
 public:
  using function = void* (*)(void* context);

  /// Throws std::system_error when the system refuses a thread.
  system_thread(function body, void* context) {
    if (const int error = pthread_create(&handle_, nullptr, body, context); error != 0)
      throw std::system_error(error, std::generic_category(), "rlcore: no further thread can be started");
  }
  void join() noexcept { pthread_join(handle_, nullptr); }

 private:
  pthread_t handle_;
};

/// Cores of the machine, at least 1.
inline std::size_t system_cores() noexcept {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  return cores > 0 ? static_cast<std::size_t>(cores) : 1;
}

/// Nanoseconds of a monotonic clock.
inline std::int64_t steady_nanoseconds() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace system_threads

/// `helpers` threads that take part in the calls of run(). One atomic word, the gate, holds all shared state: the
/// number of helpers inside, whether the gate is open, whether the caller sleeps, and the number of the call. A helper
/// may look at a call only after it has entered through an open gate; the caller closes the gate when no work is left
/// to claim and waits only for the helpers inside. So a helper that has not woken up yet costs nothing, and one that
/// wakes up late finds the gate closed and never sees a function that no longer exists.
class pool {
 public:
  using function = void (*)(void* context, std::size_t i);

  /// Starts the helpers. Throws std::system_error when the system refuses a thread.
  explicit pool(std::size_t helpers) {
    // Spinning pays only while every thread has a core of its own.
    patience_ = helpers + 1 <= system_threads::system_cores() ? 30'000 : 0;
    threads_.reserve(helpers);
    try {
      for (std::size_t i = 0; i < helpers; ++i) threads_.emplace_back(start, this);
    } catch (...) {  // the system has no more threads
      stop();
      throw;
    }
  }
  pool(const pool&) = delete;
  pool& operator=(const pool&) = delete;
  ~pool() { stop(); }

  std::size_t helpers() const noexcept { return threads_.size(); }

  /// Calls f(context, i) for i in [0, count), here and in the helpers. Returns false, having done nothing, if the pool
  /// is in use: by another thread, or by the call in which this one is nested.
  bool run(function f, void* context, std::size_t count) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    function_ = f;
    context_ = context;
    count_ = count;
    const std::size_t share = count / (8 * (helpers() + 1));
    chunk_ = share > 0 ? share : 1;
    next_.store(0, std::memory_order_relaxed);
    gate_.fetch_add(open, std::memory_order_seq_cst);
    gate_.notify_all();
    work();
    // Adding `open` a second time closes the gate and carries into the number of the call.
    gate_.fetch_add(open, std::memory_order_seq_cst);
    wait_for_helpers();
    std::exception_ptr failure = std::exchange(failure_, nullptr);
    busy_.store(false, std::memory_order_release);
    if (failure) std::rethrow_exception(std::move(failure));
    return true;
  }

 private:
  // Bits of the gate, from the lowest: helpers inside (12), caller sleeps (1), open (1), number of the call (18).
  static constexpr std::uint32_t inside = 0xfffu, caller_sleeps = 0x1000u, open = 0x2000u;

  void work() noexcept {
    for (;;) {
      const std::size_t first = next_.fetch_add(chunk_, std::memory_order_relaxed);
      if (first >= count_) return;
      const std::size_t last = (chunk_ < count_ - first ? chunk_ : count_ - first) + first;
      std::size_t i = first;
      try {
        for (; i < last; ++i) function_(context_, i);
      } catch (...) {
        // Chunks are claimed in ascending order: whatever comes before i has run or is running, the rest need not run.
        next_.store(count_, std::memory_order_relaxed);
        while (failure_lock_.test_and_set(std::memory_order_acquire)) relax();
        if (!failure_ || i < failed_at_) {
          failed_at_ = i;
          failure_ = std::current_exception();
        }
        failure_lock_.clear(std::memory_order_release);
      }
    }
  }

  static void* start(void* self) noexcept {
    std::fesetenv(FE_DFL_ENV);  // not the modes of the thread that made the pool
    static_cast<pool*>(self)->help();
    return nullptr;
  }

  void help() noexcept {
    std::uint32_t served = 0;  // the gate, as it was when this helper last left
    for (;;) {
      std::uint32_t seen = wait_until_changed(served);
      if (stopping_.load(std::memory_order_acquire)) return;
      if ((seen & open) != 0 && gate_.compare_exchange_strong(seen, seen + 1, std::memory_order_acq_rel)) {
        work();
        const std::uint32_t left = gate_.fetch_sub(1, std::memory_order_acq_rel) - 1;
        if ((left & inside) == 0 && (left & caller_sleeps) != 0) gate_.notify_all();
        served = left;
      } else if ((seen & open) == 0) {
        served = seen;
      }
    }
  }

  /// The gate's word once its call or openness differs from that of `served`.
  std::uint32_t wait_until_changed(std::uint32_t served) const noexcept {
    constexpr std::uint32_t mask = ~(inside | caller_sleeps);
    const auto changed = [&](std::uint32_t word) { return ((word ^ served) & mask) != 0; };
    std::uint32_t word = gate_.load(std::memory_order_acquire);
    if (!changed(word) && patience_ > 0) {
      spin([&] { return changed(word = gate_.load(std::memory_order_acquire)); });
    }
    while (!changed(word) && !stopping_.load(std::memory_order_acquire)) {
      gate_.wait(word, std::memory_order_acquire);
      word = gate_.load(std::memory_order_acquire);
    }
    return word;
  }

  void wait_for_helpers() noexcept {
    const auto gone = [&] { return (gate_.load(std::memory_order_acquire) & inside) == 0; };
    if (gone() || spin(gone)) return;
    std::uint32_t word = gate_.fetch_or(caller_sleeps, std::memory_order_acq_rel) | caller_sleeps;
    while ((word & inside) != 0) {
      gate_.wait(word, std::memory_order_acquire);
      word = gate_.load(std::memory_order_acquire);
    }
    gate_.fetch_and(~caller_sleeps, std::memory_order_acq_rel);
  }

  /// Spins until `done()` or until the spin time is over.
  template <class Done>
  bool spin(Done done) const noexcept {
    if (patience_ == 0) return done();
    const std::int64_t end = system_threads::steady_nanoseconds() + patience_;
    do {
      for (int look = 0; look < 64; ++look) {
        if (done()) return true;
        relax();
      }
    } while (system_threads::steady_nanoseconds() < end);
    return done();
  }

  static void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  void stop() noexcept {
    stopping_.store(true, std::memory_order_release);
    gate_.fetch_add(2 * open, std::memory_order_seq_cst);  // the next call's number, closed
    gate_.notify_all();
    for (system_threads::system_thread& t : threads_) t.join();
  }

  alignas(64) std::atomic<std::uint32_t> gate_{0};
  alignas(64) std::atomic<std::size_t> next_{0};
  // Written by the caller while the gate is closed and no helper is inside.
  alignas(64) function function_ = nullptr;
  void* context_ = nullptr;
  std::size_t count_ = 0, chunk_ = 1;
  std::size_t failed_at_ = 0;
  std::exception_ptr failure_;
  std::atomic_flag failure_lock_;
  std::atomic<bool> busy_{false}, stopping_{false};
  std::int64_t patience_ = 0;  // nanoseconds
  std::vector<system_threads::system_thread> threads_;
};

/// `count` threads, the calling one included; 0 means one per core. Work is claimed in small consecutive chunks, so the
/// caller never waits for a helper that another process keeps from running. Helpers spin for 30 microseconds after a
/// call and then sleep. A call made from inside a task, or while another thread uses the same executor, runs in the
/// calling thread: pools do not nest. Nothing is bound to a core. Move-only; throws std::invalid_argument for a
/// negative or absurd count and std::system_error when the system refuses a thread.
class threads {
 public:
  /// Starts a pool of this many threads; 0 means one per core.
  explicit threads(int count = 0) {
    if (count < 0 || count > most)
      throw std::invalid_argument("rlcore: threads(" + std::to_string(count) + "): expected 0 (one per core) to " +
                                  std::to_string(most));
    const std::size_t wanted = count > 0 ? static_cast<std::size_t>(count) : system_threads::system_cores();
    if (wanted > 1) pool_ = new pool(wanted - 1);
  }
  threads(threads&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)) {}
  threads& operator=(threads&& other) noexcept {
    std::swap(pool_, other.pool_);
    return *this;
  }
  ~threads() { delete pool_; }

  std::size_t concurrency() const noexcept { return pool_ ? pool_->helpers() + 1 : 1; }

  /// Calls f(i) once for every i in [0, count), as `executor` requires.
  template <class F>
  void for_each(std::size_t count, F&& f) const {
    using Function = std::remove_reference_t<F>;
    if (count > 1 && pool_) {
      // A function has no object to point to, so the address of the reference variable is passed.
      struct call {
        Function* f;
      } one{__builtin_addressof(f)};
      const auto each = [](void* context, std::size_t i) { (*static_cast<call*>(context)->f)(i); };
      if (pool_->run(each, &one, count)) return;
    }
    for (std::size_t i = 0; i < count; ++i) f(i);
  }

 private:
  static constexpr int most = 1024;
  pool* pool_ = nullptr;  // not std::unique_ptr: <memory> is slow to compile
};

RLCORE_ALGORITHM_END
RLCORE_END
