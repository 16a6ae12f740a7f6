// Request gate: closed while weights are exchanged, so that a response uses one set of weights.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/protocol/api_error.hpp"

RLCORE_BEGIN
namespace serving {

/// Counts requests in progress. While closed, new requests wait; none is rejected. Must outlive its passages.
class gate {
 public:
  /// RAII admission of one request.
  class passage {
   public:
    passage() = default;
    passage(passage&& from) noexcept : through_(std::exchange(from.through_, nullptr)) {}
    passage& operator=(passage&& from) noexcept {
      std::swap(through_, from.through_);
      return *this;
    }
    ~passage() {
      if (through_ != nullptr) through_->leave();
    }

   private:
    friend gate;
    explicit passage(gate& g) noexcept : through_(&g) {}
    gate* through_ = nullptr;
  };

  /// Returns when the gate is open. Calls still_there() while waiting; throws client_gone if it returns false, and
  /// api_error 503 after refuse().
  template <class StillThere>
  passage enter(StillThere&& still_there) {
    return *enter(still_there, [] { return false; });
  }
  /// The same, or empty if the gate is closed and gives_up() returns true.
  template <class StillThere, class GivesUp>
  std::optional<passage> enter(StillThere&& still_there, GivesUp&& gives_up) {
    std::unique_lock lock(mutex_);
    bool waits = true;
    const auto goes_on = [&] { return waits = !gives_up(), still_there(); };
    await(lock, goes_on, [&] { return !closed_ || refused_ || !waits; });
    if (closed_ && refused_) throw api_error(503, "ServiceUnavailableError", "the server is stopping");
    if (closed_) return std::nullopt;
    ++inside_;
    return passage(*this);
  }
  /// From now on new requests wait; admitted ones continue.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  /// The same if no request is inside; otherwise does nothing and returns false.
  bool close_empty() {
    const std::lock_guard lock(mutex_);
    if (inside_ > 0) return false;
    return closed_ = true;
  }
  /// Admits waiting requests.
  void open() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = false;
    }
    changed_.notify_all();
  }
  /// Waits until no request is inside. Throws client_gone like enter().
  template <class StillThere>
  void wait_empty(StillThere&& still_there) {
    std::unique_lock lock(mutex_);
    await(lock, still_there, [&] { return inside_ == 0; });
  }
  /// From now on requests at a closed gate fail.
  void refuse() {
    {
      const std::lock_guard lock(mutex_);
      refused_ = true;
    }
    changed_.notify_all();
  }

 private:
  template <class StillThere, class Condition>
  void await(std::unique_lock<std::mutex>& lock, StillThere& still_there, Condition&& holds) {
    while (!changed_.wait_for(lock, std::chrono::milliseconds(50), holds)) {
      lock.unlock();
      const bool there = still_there();
      lock.lock();
      if (!there) throw client_gone();
    }
  }
  void leave() noexcept {
    {
      const std::lock_guard lock(mutex_);
      --inside_;
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t inside_ = 0;
  bool closed_ = false, refused_ = false;
};

}  // namespace serving
RLCORE_END
