// Ranks as threads of one process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/communicator/meeting.hpp"
#include "rlcore/parallel/communicator/sizes.hpp"

RLCORE_BEGIN
namespace parallel {

/// One rank of run_ranks(). Ranks show each other their memory and copy what they need: one copy per element, no
/// allocation. Every collective is compared between the ranks by name, element type, count and root, and has a
/// deadline.
class thread_rank {
 public:
  thread_rank(meeting& place, int rank) noexcept : place_(&place), rank_(rank) {}

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return place_->size(); }

  void barrier() {
    place_->enter(rank_, {"barrier"});
    place_->leave();
  }
  template <wire T>
  void broadcast(std::span<T> data, int root) {
    check_root("broadcast", root, size());
    meet<T>("broadcast", data.size(), root, data.data(), {}, [&] {
      if (rank_ != root) copy(data.data(), 0, place_->of(root).data, 0, data.size(), sizeof(T));
    });
  }
  template <wire T>
  void all_gather(std::span<const T> in, std::span<T> out) {
    const std::size_t n = in.size();
    check_size("all_gather", "out", out.size(), n * static_cast<std::size_t>(size()));
    meet<T>("all_gather", n, 0, in.data(), {}, [&] {
      for (int r = 0; r < size(); ++r)
        copy(out.data(), static_cast<std::size_t>(r) * n, place_->of(r).data, 0, n, sizeof(T));
    });
  }
  template <wire T>
  void all_gather_v(std::span<const T> in, std::span<T> out, std::span<const std::size_t> counts) {
    check_counts("all_gather_v", "out", counts, size(), out.size());
    check_size("all_gather_v", "in", in.size(), counts[static_cast<std::size_t>(rank_)]);
    meet<T>("all_gather_v", out.size(), 0, in.data(), counts, [&] {
      check_lists(
          "all_gather_v", [&](int r) { return counts[static_cast<std::size_t>(r)]; },
          [&](int r) { return place_->of(r).counts[static_cast<std::size_t>(r)]; });
      std::size_t at = 0;
      for (int r = 0; r < size(); ++r) {
        const std::size_t n = counts[static_cast<std::size_t>(r)];
        copy(out.data(), at, place_->of(r).data, 0, n, sizeof(T));
        at += n;
      }
    });
  }
  template <wire T>
  void all_to_all(std::span<const T> in, std::span<T> out) {
    const std::size_t n = in.size() / static_cast<std::size_t>(size());
    check_size("all_to_all", "in", in.size(), n * static_cast<std::size_t>(size()));
    check_size("all_to_all", "out", out.size(), in.size());
    meet<T>("all_to_all", in.size(), 0, in.data(), {}, [&] {
      for (int r = 0; r < size(); ++r)
        copy(out.data(), static_cast<std::size_t>(r) * n, place_->of(r).data, static_cast<std::size_t>(rank_) * n, n,
             sizeof(T));
    });
  }
  template <wire T>
  void all_to_all_v(std::span<const T> in, std::span<const std::size_t> in_counts, std::span<T> out,
                    std::span<const std::size_t> out_counts) {
    check_counts("all_to_all_v", "in", in_counts, size(), in.size());
    check_counts("all_to_all_v", "out", out_counts, size(), out.size());
    meet<T>("all_to_all_v", 0, 0, in.data(), in_counts, [&] {
      const auto self = static_cast<std::size_t>(rank_);
      check_lists(
          "all_to_all_v", [&](int r) { return out_counts[static_cast<std::size_t>(r)]; },
          [&](int r) { return place_->of(r).counts[self]; });
      std::size_t at = 0;
      for (int r = 0; r < size(); ++r) {
        const intention& peer = place_->of(r);
        std::size_t from = 0;
        for (std::size_t k = 0; k < self; ++k) from += peer.counts[k];
        copy(out.data(), at, peer.data, from, peer.counts[self], sizeof(T));
        at += peer.counts[self];
      }
    });
  }
  [[noreturn]] void abort(const std::string& why) { place_->abort(rank_, why); }

 private:
  template <class T>
  static constexpr char kind() {
    if constexpr (std::is_floating_point_v<T>) return 'f';
    if constexpr (std::is_integral_v<T>) return std::is_signed_v<T> ? 'i' : 'u';
    return 'x';
  }
  template <class T, class Move>
  void meet(const char* collective, std::size_t count, int root, const T* data, std::span<const std::size_t> counts,
            Move move) {
    place_->enter(rank_, {collective, sizeof(T), kind<T>(), count, root,
                          static_cast<const std::byte*>(static_cast<const void*>(data)), counts});
    std::exception_ptr failed;
    try {
      move();
    } catch (...) {
      failed = std::current_exception();  // stay until the others have read this rank's memory
    }
    place_->leave();
    if (failed) std::rethrow_exception(failed);
  }
  template <class Mine, class Theirs>
  void check_lists(const char* collective, Mine mine, Theirs theirs) const {
    for (int r = 0; r < size(); ++r)
      if (mine(r) != theirs(r))
        throw communication_error(std::string("rlcore: ") + collective + ": rank " + std::to_string(r) + " sends " +
                                  std::to_string(theirs(r)) + " elements, rank " + std::to_string(rank_) + " expects " +
                                  std::to_string(mine(r)));
  }
  static void copy(void* to, std::size_t to_at, const std::byte* from, std::size_t from_at, std::size_t count,
                   std::size_t bytes) {
    if (count == 0) return;
    std::byte* const target = static_cast<std::byte*>(to) + to_at * bytes;
    const std::byte* const source = from + from_at * bytes;
    if (target != source) std::memcpy(target, source, count * bytes);
  }

  meeting* place_;
  int rank_;
};

static_assert(communicator<thread_rank>);

/// Calls f(thread_rank&) in `size` ranks at the same time, rank 0 in the calling thread, and returns when all have. If
/// a rank throws, the collectives of the others throw communication_error and the first exception is thrown on. A rank
/// that computes for ever without a collective cannot be stopped; one that is waited for longer than `deadline` ends
/// all ranks.
template <class F>
void run_ranks(int size, F&& f, std::chrono::milliseconds deadline = std::chrono::minutes(10)) {
  if (size < 1)
    throw std::invalid_argument("rlcore: run_ranks: " + std::to_string(size) + " ranks, expected 1 or more");
  meeting place(size, deadline);
  const auto run = [&](int rank) {
    thread_rank self(place, rank);
    try {
      f(self);
      place.depart(rank, nullptr, {});
    } catch (const std::exception& e) {
      place.depart(rank, std::current_exception(), e.what());
    } catch (...) {
      place.depart(rank, std::current_exception(), "unknown exception");
    }
  };
  std::vector<std::thread> others;
  others.reserve(static_cast<std::size_t>(size - 1));
  try {
    for (int rank = 1; rank < size; ++rank) others.emplace_back(run, rank);
    run(0);
  } catch (...) {  // the system has no more threads
    place.depart(0, std::current_exception(), "cannot start all ranks");
  }
  for (std::thread& t : others) t.join();
  if (place.first_failure()) std::rethrow_exception(place.first_failure());
}

}  // namespace parallel
RLCORE_END
