// Where the ranks of one process meet: a barrier that checks what they came for, has a deadline and can be broken.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace parallel {

/// What one rank shows the others: the collective it is in, the arguments that have to agree, and its memory.
struct intention {
  const char* collective = "";
  std::size_t element_bytes = 0;
  char element_kind = 0;  ///< 'f' floating point, 'i' signed, 'u' unsigned, 'x' other
  std::size_t count = 0;  ///< what has to be equal in all ranks; 0 where sizes differ by rank
  int root = 0;
  const std::byte* data = nullptr;
  std::span<const std::size_t> counts{};

  bool fits(const intention& other) const noexcept {
    return std::string_view(collective) == other.collective && element_bytes == other.element_bytes &&
           element_kind == other.element_kind && count == other.count && root == other.root;
  }
  std::string text() const {
    std::string what = collective;
    if (element_bytes != 0)
      what += " (" + std::to_string(count) + " elements of " + std::to_string(element_bytes) + " bytes, kind '" +
              element_kind + "', root " + std::to_string(root) + ")";
    return what;
  }
};

/// Shared by all ranks of run_ranks().
class meeting {
 public:
  meeting(int size, std::chrono::milliseconds deadline)
      : deadline_(deadline), shown_(static_cast<std::size_t>(size)), state_(static_cast<std::size_t>(size)) {}

  int size() const noexcept { return static_cast<int>(shown_.size()); }
  const intention& of(int rank) const noexcept { return shown_[static_cast<std::size_t>(rank)]; }

  /// Waits until all ranks have come with fitting intentions; afterwards of() may be read until leave(). Throws
  /// communication_error, in all ranks, if one does not come in time, has returned, has failed or came for something
  /// else.
  void enter(int rank, const intention& mine) {
    std::unique_lock<std::mutex> lock(mutex_);
    auto& me = state_[static_cast<std::size_t>(rank)];
    ++me.sequence;
    if (!failure_.empty()) raise(rank, mine);
    for (int r = 0; r < size(); ++r)
      if (state_[static_cast<std::size_t>(r)].returned) {
        fail(name(rank, mine) + ": rank " + std::to_string(r) + " has already returned");
        raise(rank, mine);
      }
    me.inside = true;
    shown_[static_cast<std::size_t>(rank)] = mine;
    const std::uint64_t round = round_;
    if (++arrived_ == size()) {
      for (int r = 1; r < size(); ++r)
        if (!of(r).fits(of(0))) {
          fail("ranks disagree: " + name(0, of(0)) + ", but " + name(r, of(r)));
          raise(rank, mine);
        }
      open();
      return;
    }
    const auto ready = [&] { return round_ != round || !failure_.empty(); };
    if (!changed_.wait_until(lock, std::chrono::steady_clock::now() + deadline_, ready)) {
      std::string absent;
      for (int r = 0; r < size(); ++r)
        if (!state_[static_cast<std::size_t>(r)].inside)
          absent += (absent.empty() ? "rank " : ", rank ") + std::to_string(r) + " (after " +
                    std::to_string(state_[static_cast<std::size_t>(r)].sequence) + " collectives)";
      fail(name(rank, mine) + " waited " + std::to_string(deadline_.count()) + " ms in vain for " + absent);
    }
    if (round_ == round) raise(rank, mine);
  }

  /// Waits until nobody reads any rank's memory any more. Has no deadline: the others are copying, and must not find
  /// this rank's memory gone.
  void leave() {
    std::unique_lock<std::mutex> lock(mutex_);
    const std::uint64_t round = round_;
    if (++arrived_ == size())
      open();
    else
      changed_.wait(lock, [&] { return round_ != round; });
  }

  /// A rank's function ended: normally, or by `failed`. Whoever waits for it, now or later, is told.
  void depart(int rank, std::exception_ptr failed, const std::string& why) {
    const std::lock_guard<std::mutex> lock(mutex_);
    state_[static_cast<std::size_t>(rank)].returned = true;
    if (failed) {
      if (!first_) first_ = std::move(failed);
      fail("rank " + std::to_string(rank) + " failed: " + why);
      return;
    }
    for (int r = 0; r < size(); ++r)
      if (state_[static_cast<std::size_t>(r)].inside)
        return fail("rank " + std::to_string(rank) + " returned while " + name(r, of(r)) + " waits for it");
  }

  [[noreturn]] void abort(int rank, const std::string& why) {
    const std::lock_guard<std::mutex> lock(mutex_);
    fail("rank " + std::to_string(rank) + " aborted: " + why);
    throw communication_error("rlcore: " + failure_);
  }

  std::exception_ptr first_failure() const noexcept { return first_; }

 private:
  struct state {
    std::uint64_t sequence = 0;  // collectives entered so far
    bool inside = false, returned = false;
  };

  std::string name(int rank, const intention& what) const {
    return "rank " + std::to_string(rank) + " in collective " +
           std::to_string(state_[static_cast<std::size_t>(rank)].sequence) + ", " + what.text();
  }
  void open() {
    arrived_ = 0;
    ++round_;
    for (state& s : state_) s.inside = false;
    changed_.notify_all();
  }
  void fail(const std::string& why) {
    if (failure_.empty()) failure_ = why;
    changed_.notify_all();
  }
  [[noreturn]] void raise(int rank, const intention& mine) const {
    throw communication_error("rlcore: " + std::string(mine.collective) + " of rank " + std::to_string(rank) +
                              " cannot end: " + failure_);
  }

  const std::chrono::milliseconds deadline_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<intention> shown_;
  std::vector<state> state_;
  int arrived_ = 0;
  std::uint64_t round_ = 0;
  std::string failure_;
  std::exception_ptr first_;
};

}  // namespace parallel
RLCORE_END
