// Thread-pool executor.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/exec/pool.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

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
