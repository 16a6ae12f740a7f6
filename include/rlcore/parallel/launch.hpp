// Launches the ranks of a program: threads or MPI processes.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/parallel/communicator/alone.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "rlcore/parallel/environment.hpp"

RLCORE_BEGIN
namespace parallel {

/// Settings of launch(): the number of ranks and the timeouts.
struct launch_settings {
  int thread_ranks = 1;                                           ///< ranks as threads of this process
  std::chrono::milliseconds deadline = std::chrono::minutes(10);  ///< timeout of a collective
  /// mpi: minimum timeout until all ranks have connected; process startup can be slow.
  std::chrono::milliseconds start_deadline = std::chrono::minutes(10);
#if defined(NDEBUG)
  bool fingerprint = false;  ///< check that all ranks enter the same collective; threads always do
#else
  bool fingerprint = true;
#endif
  std::size_t message_bytes = std::size_t{1} << 30;  ///< mpi: longer messages are sent in pieces of this size
};

/// The function that each rank runs.
using rank_function = std::function<void(any_communicator&)>;

/// Runs f on this process's rank of an MPI job: src/mpi.cpp, the only source that includes mpi.h. A header-only program
/// has no MPI.
#if defined(RLCORE_COMPILED)
void launch_mpi(const launch_settings& s, const rank_function& f);
#else
/// Without MPI: throws communication_error naming the library to link.
RLCORE_NOINLINE inline void launch_mpi(const launch_settings&, const rank_function&) {
  throw communication_error("rlcore: " + std::to_string(ranks_of_environment()) +
                            " processes were started, but this program was built without MPI: link rlcore::mpi");
}
#endif

/// Calls f on every rank of this process: one rank of an MPI job under mpirun or srun, otherwise s.thread_ranks
/// threads, otherwise the process itself. Returns when all have finished; rethrows the exception of the first rank that
/// failed.
inline void launch(const launch_settings& s, const rank_function& f) {
  if (s.thread_ranks < 1)
    throw std::invalid_argument("rlcore: launch: " + std::to_string(s.thread_ranks) + " ranks, expected 1 or more");
  if (const int processes = ranks_of_environment(); processes > 1) {
    if (s.thread_ranks > 1)
      throw config_error("rlcore: " + std::to_string(s.thread_ranks) + " ranks as threads were asked for in each of " +
                         std::to_string(processes) + " processes: ranks are threads or processes, not both");
    return launch_mpi(s, f);
  }
  if (s.thread_ranks == 1) {
    any_communicator_of<alone> self{alone{}};
    return f(self);
  }
  run_ranks(
      s.thread_ranks,
      [&](thread_rank& c) {
        any_communicator_of<thread_rank> self(c);
        f(self);
      },
      s.deadline, stuck_rank::end_process);
}

}  // namespace parallel
RLCORE_END
