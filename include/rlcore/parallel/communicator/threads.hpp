// Communicators of ranks that are threads, and ranks that stay while a program serves.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/patient_wait.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/communicator/rendezvous.hpp"

RLCORE_BEGIN
namespace parallel {

/// One rank of run_ranks(). Ranks read each other's memory: one copy per element, no allocation; a message between two
/// ranks waits in a mailbox, with a copy on either side. Every collective checks that name, element type, count and
/// root agree between the ranks, and has a timeout.
class thread_rank : public typed_collectives<thread_rank> {
 public:
  static constexpr const char* engine_name = "threads";

  /// Rank `rank` of the group of the rendezvous `place`.
  thread_rank(std::shared_ptr<rendezvous> place, int rank) noexcept : place_(std::move(place)), rank_(rank) {}

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return place_->size(); }

  void barrier() {
    place_->enter(rank_, {});
    place_->leave();
  }
  /// As communicator's broadcast: each rank copies from the root's memory.
  void broadcast_bytes(element e, std::byte* data, std::size_t count, int root) {
    meet({collective::broadcast, e, count, root}, data, {}, [&] {
      if (rank_ != root) copy(data, place_->of(root).data, count * e.bytes);
    });
  }
  /// As communicator's all_gather: each rank copies from the memory of all ranks.
  void all_gather_bytes(element e, const std::byte* in, std::byte* out, std::size_t count);
  /// As communicator's all_gather_v. Throws communication_error if ranks disagree on the counts.
  void all_gather_v_bytes(element e, const std::byte* in, std::byte* out, std::span<const std::size_t> counts);
  /// As communicator's all_to_all: each rank copies its part from the memory of all ranks.
  void all_to_all_bytes(element e, const std::byte* in, std::byte* out, std::size_t count);
  /// As communicator's all_to_all_v. Throws communication_error if ranks disagree on the counts.
  void all_to_all_v_bytes(element e, const std::byte* in, std::span<const std::size_t> in_counts, std::byte* out,
                          std::span<const std::size_t> out_counts);
  /// As communicator's shift: each rank copies from the memory of the source rank.
  void shift_bytes(element e, const std::byte* in, std::byte* out, std::size_t count, int distance);
  /// As communicator's send.
  void send_bytes(element e, const std::byte* data, std::size_t count, int to, std::size_t most, int patience) {
    place_->post(rank_, {collective::send, e, count, to}, data, most, patience);
  }
  /// As communicator's receive. Throws communication_error, in all ranks, for a message of another type or size.
  void receive_bytes(element e, std::byte* data, std::size_t count, int from, int patience) {
    place_->take(rank_, {collective::receive, e, count, from}, data, patience);
  }

  /// As communicator's split. The first rank of each group creates the rendezvous and publishes it to the other ranks.
  thread_rank split(int color, int key);

  /// Fails all ranks of run_ranks() and throws communication_error.
  [[noreturn]] void abort(const std::string& why) { place_->abort(rank_, why); }
  /// Calls f, which waits for the ranks in another way. If it fails, the collectives of all ranks do.
  template <class F>
  void watch(collective, F&& f) {
    try {
      f();
    } catch (const communication_error& e) {
      place_->fail_all(e.what());
      throw;
    }
  }
  /// Why a rank of run_ranks() has failed; empty: none has.
  std::string failure() const {
    const std::lock_guard<std::mutex> lock(place_->fate()->mutex);
    return place_->fate()->failure;
  }

 private:
  template <class Move>
  void meet(const collective_call& call, const std::byte* data, std::span<const std::size_t> counts, Move move) {
    place_->enter(rank_, {call, data, counts});
    std::exception_ptr failed;
    try {
      move();
    } catch (...) {
      failed = std::current_exception();  // wait until the other ranks have read this rank's memory
    }
    place_->leave();
    if (failed) std::rethrow_exception(failed);
  }
  template <class Mine, class Theirs>
  void check_lists(collective operation, Mine mine, Theirs theirs) const {
    for (int r = 0; r < size(); ++r)
      if (mine(r) != theirs(r))
        throw communication_error(std::string("rlcore: ") + name_of(operation) + ": rank " +
                                  std::to_string(place_->member(r)) + " sends " + std::to_string(theirs(r)) +
                                  " elements, rank " + std::to_string(place_->member(rank_)) + " expects " +
                                  std::to_string(mine(r)));
  }
  static void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
  }

  std::shared_ptr<rendezvous> place_;
  int rank_;
};

static_assert(communicator<thread_rank>);

/// The handling of a rank that never enters a collective after the other ranks have failed.
enum class stuck_rank {
  wait,         ///< forever: a thread cannot be stopped
  end_process,  ///< one more deadline; then one line on standard error and exit code exit_stuck
};

namespace detail {

/// Calls f() for a rank and reports its end.
template <class F>
void depart_after(shared_abort_state& fate, int rank, F&& f) {
  try {
    f();
    rendezvous::depart(fate, rank, nullptr, {});
  } catch (const std::exception& e) {
    rendezvous::depart(fate, rank, std::current_exception(), e.what());
  } catch (...) {
    rendezvous::depart(fate, rank, std::current_exception(), "unknown exception");
  }
}

/// Waits for all ranks. If they do not return within one more deadline after a failure, ends the process.
void end_if_stuck(shared_abort_state& fate);

}  // namespace detail

/// Calls f(thread_rank&) in `size` ranks concurrently, rank 0 in the calling thread, and returns when all have
/// returned. If a rank throws, the collectives of the other ranks throw communication_error, and the caller gets the
/// first exception, of several the first that is no communication_error. If a wait for a rank exceeds `deadline`, all
/// ranks fail.
template <class F>
void run_ranks(int size, F&& f, std::chrono::milliseconds deadline = std::chrono::minutes(10),
               stuck_rank stuck = stuck_rank::wait) {
  if (size < 1)
    throw std::invalid_argument("rlcore: run_ranks: " + std::to_string(size) + " ranks, expected 1 or more");
  std::vector<int> members(static_cast<std::size_t>(size));
  std::iota(members.begin(), members.end(), 0);
  const auto fate = std::make_shared<shared_abort_state>(size, deadline);
  const auto place = std::make_shared<rendezvous>(fate, std::move(members));
  const auto run = [&](int rank) {
    detail::depart_after(*fate, rank, [&] {
      thread_rank self(place, rank);
      f(self);
    });
  };
  std::vector<std::thread> others;
  others.reserve(static_cast<std::size_t>(size));
  try {
    for (int rank = 1; rank < size; ++rank) others.emplace_back(run, rank);
    if (stuck == stuck_rank::end_process) others.emplace_back([&] { detail::end_if_stuck(*fate); });
    run(0);
  } catch (...) {  // thread creation failed
    for (int rank = 0; rank < size; ++rank)
      if (rank == 0 || rank > static_cast<int>(others.size()))
        rendezvous::depart(*fate, rank, std::current_exception(), "cannot start all ranks");
  }
  for (std::thread& t : others) t.join();
  if (fate->first) std::rethrow_exception(fate->first);
}

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
    std::shared_ptr<shared_abort_state> fate{};  ///< each rank keeps it alive until its release
  };

  static std::size_t checked(int size) {
    if (size < 1)
      throw std::invalid_argument("rlcore: standing_ranks: " + std::to_string(size) + " ranks, expected 1 or more");
    return static_cast<std::size_t>(size);
  }
  void meet(const std::shared_ptr<shared_abort_state>& fate) {
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

RLCORE_INLINE void thread_rank::all_gather_bytes(element e, const std::byte* in, std::byte* out, std::size_t count) {
  const std::size_t n = count * e.bytes;
  meet({collective::all_gather, e, count, 0}, in, {}, [&] {
    for (int r = 0; r < size(); ++r) copy(out + static_cast<std::size_t>(r) * n, place_->of(r).data, n);
  });
}

RLCORE_INLINE void thread_rank::all_gather_v_bytes(element e, const std::byte* in, std::byte* out,
                                                   std::span<const std::size_t> counts) {
  const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  meet({collective::all_gather_v, e, total, 0}, in, counts, [&] {
    check_lists(
        collective::all_gather_v, [&](int r) { return counts[static_cast<std::size_t>(r)]; },
        [&](int r) { return place_->of(r).counts[static_cast<std::size_t>(r)]; });
    for (int r = 0; r < size(); ++r) {
      const std::size_t n = counts[static_cast<std::size_t>(r)] * e.bytes;
      copy(out, place_->of(r).data, n);
      out += n;
    }
  });
}

RLCORE_INLINE void thread_rank::all_to_all_bytes(element e, const std::byte* in, std::byte* out, std::size_t count) {
  const std::size_t n = count * e.bytes;
  meet({collective::all_to_all, e, count, 0}, in, {}, [&] {
    for (int r = 0; r < size(); ++r)
      copy(out + static_cast<std::size_t>(r) * n, place_->of(r).data + static_cast<std::size_t>(rank_) * n, n);
  });
}

RLCORE_INLINE void thread_rank::all_to_all_v_bytes(element e, const std::byte* in,
                                                   std::span<const std::size_t> in_counts, std::byte* out,
                                                   std::span<const std::size_t> out_counts) {
  meet({collective::all_to_all_v, e, 0, 0}, in, in_counts, [&] {
    const auto self = static_cast<std::size_t>(rank_);
    check_lists(
        collective::all_to_all_v, [&](int r) { return out_counts[static_cast<std::size_t>(r)]; },
        [&](int r) { return place_->of(r).counts[self]; });
    for (int r = 0; r < size(); ++r) {
      const intention& peer = place_->of(r);
      const std::size_t from = std::accumulate(peer.counts.begin(), peer.counts.begin() + rank_, std::size_t{0});
      copy(out, peer.data + from * e.bytes, peer.counts[self] * e.bytes);
      out += peer.counts[self] * e.bytes;
    }
  });
}

RLCORE_INLINE void thread_rank::shift_bytes(element e, const std::byte* in, std::byte* out, std::size_t count,
                                            int distance) {
  meet({collective::shift, e, count, distance}, in, {}, [&] {
    const int from = rank_after(rank_, -(distance % size()), size());
    copy(out, place_->of(from).data, count * e.bytes);
  });
}

RLCORE_INLINE thread_rank thread_rank::split(int color, int key) {
  const requested_split mine{color, key};
  std::vector<requested_split> wishes(static_cast<std::size_t>(size()));
  const collective_call call{collective::split, {}, 0, 0};
  meet(call, reinterpret_cast<const std::byte*>(&mine), {}, [&] {
    for (int r = 0; r < size(); ++r)
      std::memcpy(&wishes[static_cast<std::size_t>(r)], place_->of(r).data, sizeof(requested_split));
  });
  const std::vector<int> group = split_group(wishes, color);
  std::shared_ptr<rendezvous> place;
  if (group.front() == rank_) {
    std::vector<int> members;
    for (const int r : group) members.push_back(place_->member(r));
    place = std::make_shared<rendezvous>(place_->fate(), std::move(members));
  }
  const std::shared_ptr<rendezvous> made = place;  // published to the other ranks; not written while they read it
  meet(call, reinterpret_cast<const std::byte*>(&made), {},
       [&] { place = *reinterpret_cast<const std::shared_ptr<rendezvous>*>(place_->of(group.front()).data); });
  return {std::move(place), static_cast<int>(std::find(group.begin(), group.end(), rank_) - group.begin())};
}

}  // namespace parallel

namespace parallel::detail {

RLCORE_INLINE void end_if_stuck(shared_abort_state& fate) {
  std::unique_lock<std::mutex> lock(fate.mutex);
  const auto all_returned = [&] {
    return std::find(fate.returned.begin(), fate.returned.end(), 0) == fate.returned.end();
  };
  fate.ended.wait(lock, [&] { return all_returned() || !fate.failure.empty(); });
  if (patient_wait(fate.ended, lock, fate.deadline, all_returned)) return;
  const auto rank = std::find(fate.returned.begin(), fate.returned.end(), 0) - fate.returned.begin();
  std::fprintf(stderr, "rlcore: rank %d does not end: %s\n", static_cast<int>(rank), fate.failure.c_str());
  std::_Exit(exit_stuck);
}

}  // namespace parallel::detail

namespace parallel {

RLCORE_INLINE standing_ranks::standing_ranks(int size, std::chrono::milliseconds deadline)
    : deadline_(deadline), members_(checked(size)), ranks_(members_.size(), thread_rank(nullptr, 0)) {
  std::iota(members_.begin(), members_.end(), 0);
  meet(std::make_shared<shared_abort_state>(size, deadline));
  try {
    for (int rank = 1; rank < size; ++rank) threads_.emplace_back([this, rank] { work(rank); });
  } catch (...) {  // thread creation failed
    stop();
    throw;
  }
}

RLCORE_INLINE void standing_ranks::run(const std::function<void(int)>& f) {
  const auto fate = std::make_shared<shared_abort_state>(size(), deadline_);
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
