// MPI job of this process: MPI_Init, watchdog, finalization and failure handling.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/communicator/mpi.hpp"
#include "rlcore/parallel/communicator/watchdog.hpp"
#include "rlcore/parallel/launch.hpp"

RLCORE_BEGIN
namespace parallel {

/// The MPI state of this process, with the host board and the watchdog. Create it once per process, since MPI can be
/// initialized only once. A program that initializes MPI itself must also finalize it.
class mpi_job {
 public:
  /// Initializes MPI unless the program has done so, connects the ranks and starts the watchdog. Throws
  /// std::invalid_argument if message_bytes exceeds an int, communication_error if MPI lacks thread support or the
  /// launcher belongs to another MPI.
  explicit mpi_job(const launch_settings& s) : owns_mpi_(!started()), deadline_(s.deadline) {
    if (s.message_bytes < 1 || s.message_bytes > std::size_t{0x7fffffff})
      throw std::invalid_argument("rlcore: launch: messages of " + std::to_string(s.message_bytes) +
                                  " bytes, expected 1 to 2147483647");
    process_.board.come(rank_of_environment(), static_cast<int>(::getpid()));
    if (rank_on_this_host() > 1) (void)process_.board.tell();  // no shared board yet: the first two ranks report
    process_.recorder.begin({collective::start, {}, 0, 0}, ranks_of_environment());
    watch(rank_of_environment(), std::max(s.deadline, s.start_deadline));
    if (owns_mpi_) {
      yield_while_waiting();
      int provided = 0;
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
      if (provided < MPI_THREAD_FUNNELED) throw communication_error("rlcore: MPI was built without threads");
    }
    int size = 1, rank = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    check_launcher(size);
    process_.message_bytes = s.message_bytes;
    process_.compare = s.fingerprint;
    hang_up_board();
    process_.board.come(rank, static_cast<int>(::getpid()));
    watch(rank, deadline_);
    MPI_Comm_dup(MPI_COMM_WORLD, &farewell_);
    several_hosts_ = process_.board.ranks() != size;
    process_.recorder.forget();
    world_ = std::make_unique<mpi_rank>(process_, MPI_COMM_WORLD);
  }
  mpi_job(const mpi_job&) = delete;
  mpi_job& operator=(const mpi_job&) = delete;
  /// MPI_Finalize waits for the other ranks, under the watchdog. It is not called after a failure.
  ~mpi_job() {
    if (failed_) {
      dog_.reset();
      (void)world_.release();  // not freed before the process ends
      return;
    }
    const int rank = world_->rank(), size = world_->size();
    world_.reset();
    process_.board.self().state = host_board::ended;
    process_.recorder.begin({collective::end, {}, 0, 0}, size);
    if (board_window_ != MPI_WIN_NULL) {
      MPI_Win_unlock_all(board_window_);
      dog_.reset();
      process_.board.take_down();
      process_.board.come(rank, static_cast<int>(::getpid()));
      watch(rank, deadline_);
      MPI_Win_free(&board_window_);
    }
    MPI_Comm_free(&farewell_);
    MPI_Comm_free(&host_);
    if (owns_mpi_) MPI_Finalize();
    process_.recorder.end();
    dog_.reset();
  }

  mpi_rank& world() noexcept { return *world_; }

  /// Marks the job as finished in all ranks.
  void end() { world_->end(); }

  /// Handles a failure of this rank. Returns in the rank that reports to the user; its process must exit soon. Other
  /// failing ranks of the host exit here silently. The launcher ends the rest of the job.
  void fail() noexcept {
    failed_ = true;
    process_.board.self().state = host_board::failing;
    bool mine = process_.board.tell();
    if (several_hosts_ && all_fail()) mine = world_->rank() == 0;
    if (mine) return;
    std::this_thread::sleep_for(std::chrono::seconds(20));  // the launcher kills the process earlier
    std::_Exit(1);
  }

 private:
  static bool started() {
    int flag = 0;
    MPI_Initialized(&flag);
    return flag != 0;
  }
  /// A waiting rank yields its core to compute threads. Open MPI reads this from the environment; a value set by the
  /// user is kept.
  static void yield_while_waiting() { ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0); }
  /// Throws if mpirun belongs to another MPI: its processes cannot connect.
  void check_launcher(int size) {
    const int wanted = ranks_of_environment();
    if (!owns_mpi_ || wanted == size) return;
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(version, &length);
    std::string library(version, static_cast<std::size_t>(length));
    library = library.substr(0, library.find_first_of(",\n\t"));
    if (rank_of_environment() != 0) {
      std::this_thread::sleep_for(std::chrono::seconds(10));  // rank 0 reports; some launchers then kill the rest
      std::_Exit(1);
    }
    throw communication_error("rlcore: " + std::to_string(wanted) + " processes were started, but MPI sees " +
                              std::to_string(size) + ": mpirun belongs to another MPI than this program's, " + library);
  }
  void hang_up_board() {
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host_);
    int ranks = 1, self = 0;
    MPI_Comm_size(host_, &ranks);
    MPI_Comm_rank(host_, &self);
    void* memory = nullptr;
    const auto bytes = static_cast<MPI_Aint>(self == 0 ? host_board::bytes(ranks) : 0);
    MPI_Comm_set_errhandler(host_, MPI_ERRORS_RETURN);
    if (MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, host_, &memory, &board_window_) != MPI_SUCCESS) {
      board_window_ = MPI_WIN_NULL;  // each rank keeps its own board and sees less of the other ranks
      return;
    }
    MPI_Aint size = 0;
    int unit = 1;
    MPI_Win_shared_query(board_window_, 0, &size, &unit, &memory);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, board_window_);
    if (self == 0) std::memset(memory, 0, static_cast<std::size_t>(size));
    MPI_Win_sync(board_window_);
    MPI_Barrier(host_);
    dog_.reset();  // stop the watchdog while the board changes
    process_.board.place(memory, ranks, self);
  }
  void watch(int rank, std::chrono::milliseconds deadline) {
    dog_.reset();
    const char* folder = std::getenv("RLCORE_FLIGHT_FOLDER");
    dog_ = std::make_unique<watchdog>(process_.recorder, process_.board, deadline, rank,
                                      folder != nullptr ? folder : watchdog::temporary_folder());
  }
  /// Do all ranks of the job fail within two seconds? A wrong setting causes this.
  bool all_fail() noexcept {
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Ibarrier(farewell_, &request) != MPI_SUCCESS) return false;
    for (int i = 0; i < 200; ++i) {
      int done = 0;
      if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
      if (done != 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  const bool owns_mpi_;
  const std::chrono::milliseconds deadline_;
  bool failed_ = false, several_hosts_ = false;
  mpi_process process_;
  MPI_Comm host_ = MPI_COMM_NULL, farewell_ = MPI_COMM_NULL;
  MPI_Win board_window_ = MPI_WIN_NULL;
  std::unique_ptr<watchdog> dog_;
  std::unique_ptr<mpi_rank> world_;
};

/// Calls f on this process's rank. launch_mpi() does this if MPI is available.
template <class F>
void run_mpi_rank(const launch_settings& s, F&& f) {
  mpi_job job(s);
  try {
    {
      any_communicator_of<mpi_rank&> self(job.world());
      f(self);
    }
    job.end();
  } catch (...) {
    job.fail();
    throw;
  }
}

}  // namespace parallel
RLCORE_END
