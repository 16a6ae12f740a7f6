// Sampling one step ahead of training (rlcore.async_depth=1): while the policy is updated, the next responses are drawn
// from the weights before that update, and wait for tools.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/timeline.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"
#include "rlcore/train/run/interrupt.hpp"

RLCORE_BEGIN
namespace train {

/// Two threads that use one device in turn: training, and sampling ahead of it. Training has the device at first.
/// Sampling gets it whenever training pauses, and gives it back where it waits for tools. What either computes does not
/// depend on these points.
class device_turns {
 public:
  /// Training: lets sampling go on, if it wants the device, until it waits or ends.
  void pause() {
    std::unique_lock lock(mutex_);
    if (wanted_) give(lock);
  }
  /// Training: the same once sampling wants the device for the first time.
  void begin() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return wanted_ || ended_; });
    if (wanted_) give(lock);
  }
  /// Training: lets sampling go on until it has ended.
  void finish() {
    std::unique_lock lock(mutex_);
    while (!ended_) {
      if (wanted_) give(lock);
      changed_.wait(lock, [&] { return wanted_ || ended_; });
    }
  }
  /// Training: what is drawn will not be read.
  void cancel() noexcept { cancelled_ = true; }
  /// Sampling: ends where that has been said.
  void check() const {
    if (cancelled_) throw sampling_interrupted();
  }
  /// Sampling: waits for the device.
  void enter() {
    std::unique_lock lock(mutex_);
    wanted_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return sampling_; });
  }
  /// Sampling: gives the device back; `ended`: for good.
  void leave(bool ended = false) {
    const std::lock_guard lock(mutex_);
    wanted_ = sampling_ = false;
    ended_ = ended;
    changed_.notify_all();
  }

 private:
  void give(std::unique_lock<std::mutex>& lock) {
    sampling_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !sampling_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool wanted_ = false, sampling_ = false, ended_ = false;
  std::atomic<bool> cancelled_ = false;
};

/// Conversations that give the device back while they wait for tools.
class patient_turns final : public rollout::turn_source {
 public:
  /// Both must outlive this object.
  patient_turns(rollout::turn_source& inside, device_turns& device) : inside_(inside), device_(device) {}
  void prepare(std::span<rollout::request> requests) override {
    leave([&] { inside_.prepare(requests); });
  }
  void begin(std::span<const rollout::request> requests) override { inside_.begin(requests); }
  void end_turn(std::size_t request, const rollout::response& so_far, std::size_t turn) override {
    inside_.end_turn(request, so_far, turn);
  }
  std::optional<continuation> next(bool wait) override {
    device_.check();
    auto ready = inside_.next(false);
    if (ready || !wait) return ready;
    leave([&] { ready = inside_.next(true); });
    return ready;
  }

 private:
  /// Waits for f() without the device.
  template <class F>
  void leave(F&& f) {
    device_.leave();
    try {
      f();
    } catch (...) {
      device_.enter();
      throw;
    }
    device_.enter();
  }

  rollout::turn_source& inside_;
  device_turns& device_;
};

/// Responses that a thread draws while the policy is trained.
class ahead_round {
 public:
  /// Calls `draw` in a thread of its own, and returns when it waits for the first time, or has ended.
  explicit ahead_round(std::function<std::vector<trajectory>(device_turns&)> draw)
      : thread_([this, draw = std::move(draw), rank = timeline::rank_here()] {
          timeline::name_thread(rank, "sampling ahead");
          device_.enter();
          try {
            drawn_ = draw(device_);
          } catch (...) {
            failure_ = std::current_exception();
          }
          device_.leave(true);
        }) {
    device_.begin();
  }
  ahead_round(const ahead_round&) = delete;
  ahead_round& operator=(const ahead_round&) = delete;
  ~ahead_round() {
    device_.cancel();
    join();
  }

  /// Lets it go on, if it does not wait for tools.
  void pause() { device_.pause(); }
  /// Waits for its end.
  void join() {
    if (!thread_.joinable()) return;
    device_.finish();
    thread_.join();
  }
  /// The responses, once. Throws what drawing threw.
  std::vector<trajectory> take() {
    join();
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    return std::move(drawn_);
  }

 private:
  device_turns device_;
  std::vector<trajectory> drawn_;
  std::exception_ptr failure_;
  std::thread thread_;  ///< last: it uses the others
};

}  // namespace train
RLCORE_END
