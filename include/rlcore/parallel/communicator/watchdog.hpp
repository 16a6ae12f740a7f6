// Watchdog: ends the process if a collective hangs or another rank has died.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/communicator/flight_recorder.hpp"

RLCORE_BEGIN
namespace parallel {

/// A thread that watches the flight recorder and the host board, for engines whose collectives block inside another
/// library. During its lifetime:
///
/// - if a collective exceeds the deadline, or a message its multiple of it, the process exits with code exit_stuck:
///   the first such rank of the host prints one line on standard error (the call, and the ranks of this host that are
///   behind), and each rank dumps the recorder to a file. The time in which this process was stopped does not count;
/// - the same happens if the process of another rank of the host has died, unless the launcher kills this process
///   first;
/// - on SIGTERM, which launchers send to the survivors when a process dies, it prints one line per host with the lost
///   rank and the waiting collective, and exits with code 143. A SIGTERM handler of the program is kept.
///
/// At most one per process at a time.
class watchdog {
 public:
  /// The file of the recorder's content is <folder>/rlcore_rank<rank>_<process>.flight.
  watchdog(const flight_recorder& recorder, host_board& board, std::chrono::milliseconds deadline, int rank,
           const std::string& folder);
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;
  ~watchdog();

  /// The default folder of the recorder's file.
  static std::string temporary_folder() {
    const char* folder = std::getenv("TMPDIR");
    return folder != nullptr && *folder != '\0' ? folder : "/tmp";
  }

 private:
  static std::atomic<watchdog*>& of_process() noexcept {
    static constinit std::atomic<watchdog*> one{nullptr};
    return one;
  }

  static std::atomic<int>& answers() noexcept {
    static constinit std::atomic<int> number{0};
    return number;
  }

  void watch(std::chrono::milliseconds deadline);

  [[noreturn]] void end_stuck(const host_board::line* gone) noexcept;
  /// Writes the line in one call, so that it does not interleave with the output of other ranks.
  void tell(const host_board::line* gone, const char* end) const noexcept;
  /// Appends the ranks of this host that have entered fewer collectives than this rank, or a different one. A message
  /// names the other rank itself.
  void add_suspects(fixed_text& line) const noexcept;

  static void terminated(int);

  const flight_recorder& recorder_;
  host_board& board_;
  const std::int64_t deadline_;
  const int rank_;
  const std::string file_;
  bool handles_ = false, done_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread thread_;
};

}  // namespace parallel
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PARALLEL)
RLCORE_BEGIN
namespace parallel {

RLCORE_INLINE watchdog::watchdog(const flight_recorder& recorder, host_board& board, std::chrono::milliseconds deadline,
                                 int rank, const std::string& folder)
    : recorder_(recorder),
      board_(board),
      deadline_(std::chrono::nanoseconds(deadline).count()),
      rank_(rank),
      file_(folder + "/rlcore_rank" + std::to_string(rank) + "_" + std::to_string(::getpid()) + ".flight") {
  of_process().store(this);
  struct sigaction old{};
  if (::sigaction(SIGTERM, nullptr, &old) == 0 && old.sa_handler == SIG_DFL && (old.sa_flags & SA_SIGINFO) == 0) {
    struct sigaction mine{};
    mine.sa_handler = &terminated;
    handles_ = ::sigaction(SIGTERM, &mine, nullptr) == 0;
  }
  thread_ = std::thread([this, deadline] { watch(deadline); });
}

RLCORE_INLINE watchdog::~watchdog() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
  }
  wake_.notify_all();
  thread_.join();
  if (handles_) ::signal(SIGTERM, SIG_DFL);
  of_process().store(nullptr);
  while (answers() != 0) ::usleep(1000);  // another thread handles SIGTERM and ends the process
}

RLCORE_INLINE void watchdog::watch(std::chrono::milliseconds deadline) {
  const auto pause = std::clamp(deadline / 20, std::chrono::milliseconds(1), std::chrono::milliseconds(200));
  const std::int64_t each = std::chrono::nanoseconds(pause).count();
  std::uint64_t last = 0;  // the last collective entered
  std::int64_t seen = 0;   // how long this thread has observed it
  std::int64_t missed_since = -1;
  std::unique_lock<std::mutex> lock(mutex_);
  while (!wake_.wait_for(lock, pause, [this] { return done_; })) {
    const std::uint64_t before = std::exchange(last, recorder_.entered());
    seen = before == last ? seen + each : 0;
    const std::int64_t longest = deadline_ * recorder_.patience();
    if (recorder_.waiting() > longest && seen + each >= longest) end_stuck(nullptr);
    const host_board::line* gone = board_.vanished();
    if (gone == nullptr) {
      missed_since = -1;
    } else if (missed_since < 0) {
      missed_since = flight_recorder::now();
      if (board_.self().state == host_board::working && board_.tell()) tell(gone, "\n");
    } else if (flight_recorder::now() - missed_since > 5'000'000'000) {  // the launcher has not acted
      end_stuck(gone);
    }
  }
}

RLCORE_INLINE void watchdog::end_stuck(const host_board::line* gone) noexcept {
  ::unlink(file_.c_str());  // /tmp may contain a planted link
  const int file = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (file >= 0) {
    recorder_.dump(file, rank_);
    ::close(file);
  }
  if (board_.tell()) {
    fixed_text end;
    if (gone == nullptr) add_suspects(end);
    if (file >= 0) end.add("; its last collectives are in ").add(file_.c_str());
    tell(gone, end.add("\n").text());
  }
  ::usleep(200'000);  // lets another rank finish its report before the launcher notices this exit
  std::_Exit(exit_stuck);
}

RLCORE_INLINE void watchdog::tell(const host_board::line* gone, const char* end) const noexcept {
  fixed_text line;
  line.add("rlcore: rank ").add(rank_).add(": ");
  if (gone != nullptr)
    line.add("rank ").add(gone->rank.load()).add(" (process ").add(gone->process.load()).add(") is gone; ");
  line.add("stopped ");
  recorder_.describe(line);
  line.add(end).write_to(STDERR_FILENO);
}

RLCORE_INLINE void watchdog::add_suspects(fixed_text& line) const noexcept {
  int shown = 0;
  const host_board::line& mine = board_.self();
  if (is_message(static_cast<collective>(mine.operation.load()))) return;
  for (int r = 0; r < board_.ranks() && shown < 8; ++r) {
    const host_board::line& other = board_.of(r);
    const std::uint64_t n = other.collectives;
    if (other.state == host_board::ended || n > mine.collectives ||
        (n == mine.collectives &&
         (other.operation == mine.operation || is_message(static_cast<collective>(other.operation.load())))))
      continue;
    line.add(shown++ == 0 ? "; on this host rank " : ", rank ").add(other.rank.load()).add(" has come to ").add(n);
    if (n != 0) line.add(", ").add(name_of(static_cast<collective>(other.operation.load())));
  }
}

RLCORE_INLINE void watchdog::terminated(int) {
  ++answers();
  watchdog* const self = of_process().load();
  if (self == nullptr) ::_exit(128 + SIGTERM);
  host_board& board = self->board_;
  if (board.self().state == host_board::failing) ::_exit(1);
  if (board.self().state == host_board::working && !board.anybody_fails() && board.tell())
    self->tell(board.vanished(), " (SIGTERM)\n");
  ::_exit(128 + SIGTERM);
}

}  // namespace parallel
RLCORE_END
#endif
