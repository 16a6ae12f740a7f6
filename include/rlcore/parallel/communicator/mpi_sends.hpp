// Messages between two ranks of MPI that no call waits for. Like mpi.hpp, nothing in the library requires it.
#pragma once

#if !defined(OMPI_SKIP_MPICXX)
#define OMPI_SKIP_MPICXX 1
#endif
#if !defined(MPICH_SKIP_MPICXX)
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"

RLCORE_BEGIN
namespace parallel {

namespace detail {

/// Throws communication_error, with the text of MPI, unless `status` is success.
inline void check_mpi(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  std::string message = "error " + std::to_string(status);
  if (MPI_Error_string(status, text, &length) == MPI_SUCCESS) message.assign(text, static_cast<std::size_t>(length));
  std::replace(message.begin(), message.end(), '\n', ' ');
  throw communication_error(std::string(call) + ": " + message);
}

}  // namespace detail

/// Copies of the sent data, until MPI has read them. Messages have a tag that exchanges of the same communicator do not
/// have; MPI keeps the order of those with equal tags, and its collectives match apart from messages.
class mpi_sends {
 public:
  bool empty() const noexcept { return pending_.empty(); }

  /// Sends n bytes in pieces of `limit`. Waits only while MPI has not completed `most` messages to this rank.
  void send(MPI_Comm comm, const std::byte* data, std::size_t n, int to, std::size_t limit, std::size_t most) {
    forget_completed();
    const auto to_rank = [to](const message& m) { return m.to == to; };
    while (std::count_if(pending_.begin(), pending_.end(), to_rank) >= static_cast<std::ptrdiff_t>(most))
      wait_for_first();
    message& m = pending_.emplace_back();
    m.to = to;
    m.bytes.swap(idle_);
    m.bytes.assign(data, data + n);
    for_pieces(n, limit, [&](std::size_t at, int length) {
      detail::check_mpi(
          MPI_Isend(m.bytes.data() + at, length, MPI_BYTE, to, tag, comm, &m.requests.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Isend");
    });
  }
  /// Receives n bytes. Throws communication_error for a message of another size.
  void receive(MPI_Comm comm, std::byte* data, std::size_t n, int from, std::size_t limit) {
    forget_completed();
    for_pieces(n, limit, [&](std::size_t at, int length) {
      MPI_Status status;
      int got = 0;
      detail::check_mpi(MPI_Recv(data + at, length, MPI_BYTE, from, tag, comm, &status), "MPI_Recv");
      detail::check_mpi(MPI_Get_count(&status, MPI_BYTE, &got), "MPI_Get_count");
      if (got != length)
        throw communication_error("ranks disagree: expected " + std::to_string(length) + " bytes, rank " +
                                  std::to_string(from) + " of the group sent " + std::to_string(got));
    });
  }
  void wait_for_all() noexcept {
    for (message& m : pending_)
      MPI_Waitall(static_cast<int>(m.requests.size()), m.requests.data(), MPI_STATUSES_IGNORE);
    pending_.clear();
  }
  /// Leaves the data to MPI until the end of the process.
  void abandon() noexcept { static_cast<void>(new std::deque<message>(std::move(pending_))); }

 private:
  static constexpr int tag = 2;
  struct message {
    int to = 0;
    std::vector<std::byte> bytes{};
    std::vector<MPI_Request> requests{};
  };

  /// Calls f(begin, length) for the pieces of n bytes, at least once.
  template <class F>
  static void for_pieces(std::size_t n, std::size_t limit, F f) {
    std::size_t at = 0;
    do {
      const std::size_t length = std::min(n - at, limit);
      f(at, static_cast<int>(length));
      at += length;
    } while (at < n);
  }
  void forget_completed() {
    while (!pending_.empty()) {
      message& first = pending_.front();
      int done = 0;
      detail::check_mpi(
          MPI_Testall(static_cast<int>(first.requests.size()), first.requests.data(), &done, MPI_STATUSES_IGNORE),
          "MPI_Testall");
      if (done == 0) return;
      idle_.swap(first.bytes);
      pending_.pop_front();
    }
  }
  void wait_for_first() {
    message& first = pending_.front();
    detail::check_mpi(MPI_Waitall(static_cast<int>(first.requests.size()), first.requests.data(), MPI_STATUSES_IGNORE),
                      "MPI_Waitall");
    pending_.pop_front();
  }

  std::deque<message> pending_;
  std::vector<std::byte> idle_;  // memory of a completed send
};

}  // namespace parallel
RLCORE_END
