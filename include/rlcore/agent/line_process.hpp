// A child process with a line-based protocol.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace agent {
namespace detail {

/// A pipe to itself, by which other threads end the waiting of one.
class wake_pipe {
 public:
  /// Throws file_error.
  wake_pipe();
  wake_pipe(const wake_pipe&) = delete;
  wake_pipe& operator=(const wake_pipe&) = delete;
  ~wake_pipe() { ::close(ends_[0]), ::close(ends_[1]); }
  /// Has input after ring().
  int descriptor() const { return ends_[0]; }
  /// Wakes the waiting thread.
  void ring() noexcept;
  /// Takes the input away.
  void clear() noexcept;

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace detail

/// The constructor starts the child. The destructor closes its input, waits a second, then kills it and its children;
/// no zombie remains. They also die with this process, however it ends: a second process, which is small, waits for
/// that. Its standard error is ours. Writing to a dead child raises no SIGPIPE.
class line_process {
 public:
  /// Result of read_line().
  enum class status {
    line,
    timeout,
    end,       ///< it closed its output
    too_long,  ///< more than `longest_line` bytes without a line end
    woken      ///< the descriptor `wake` has input
  };

  /// Runs arguments[0] (looked up in PATH). Throws file_error where that cannot be done. The child also dies with the
  /// thread that calls this.
  explicit line_process(const std::vector<std::string>& arguments, std::size_t longest_line = 1u << 20);
  line_process(const line_process&) = delete;
  line_process& operator=(const line_process&) = delete;
  ~line_process() { finish(std::chrono::seconds(1)); }

  /// Bytes for its input; they go out while read_line() waits.
  void write(std::string_view bytes) { pending_ += bytes; }

  /// Closes its input once all bytes have gone out.
  void close_input() { closing_ = true; }

  /// The next line of its output, without the line end. `wake`: a descriptor whose input ends the waiting.
  status read_line(std::string& line, double seconds, int wake = -1);

  /// The constructor's.
  std::size_t longest_line() const { return longest_line_; }

  /// True if it has unread output.
  bool has_output() {
    if (buffer_.empty() && !exchange(0)) return false;
    return !buffer_.empty();
  }

  /// Kills it at once.
  void stop() { finish(std::chrono::seconds(0)); }

  /// Waits up to ten seconds for the end and describes it: "exit code 3", "signal 9 (Killed)".
  std::string ending();

 private:
  static void close_fd(int fd) noexcept {
    if (fd >= 0) ::close(fd);
  }
  static bool open_pipe(int (&ends)[2]) noexcept {
#if defined(__linux__)
    return ::pipe2(ends, O_CLOEXEC) == 0;
#else
    if (::pipe(ends) != 0) return false;
    for (const int fd : ends) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    return true;
#endif
  }

  /// After fork(): nothing but async-signal-safe calls.
  [[noreturn]] static void run_child(char* const* argv, int in, int out, int failed, pid_t parent);

  /// Waits for input, room for output or `wake`. False: the child has closed its output.
  bool exchange(int milliseconds, int wake = -1);

  void send();

  /// Starts the process that kills the child's group when this one has ended.
  void start_guard();
  int finish(std::chrono::milliseconds patience);

  pid_t pid_ = -1, guard_ = -1;
  int in_ = -1, out_ = -1, status_ = 0;
  int lifeline_ = -1;  // a pipe to guard_: it closes when this process ends
  std::string pending_, buffer_;
  bool closing_ = false;
  std::size_t sent_ = 0;  // bytes of pending_
  std::size_t searched_ = 0;
  std::size_t longest_line_;
  bool woken_ = false;  // by `wake`, in the last exchange()
};

}  // namespace agent
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_AGENT)
RLCORE_BEGIN
namespace agent {

RLCORE_INLINE detail::wake_pipe::wake_pipe() {
#if defined(__linux__)
  const bool made = ::pipe2(ends_, O_CLOEXEC | O_NONBLOCK) == 0;
#else
  const bool made = ::pipe(ends_) == 0;
  for (const int fd : ends_) ::fcntl(fd, F_SETFD, FD_CLOEXEC), ::fcntl(fd, F_SETFL, O_NONBLOCK);
#endif
  if (!made) throw file_error(std::string("cannot make a pipe: ") + std::strerror(errno));
}

RLCORE_INLINE void detail::wake_pipe::ring() noexcept {
  [[maybe_unused]] const auto written = ::write(ends_[1], "", 1);  // a full pipe wakes as well
}

RLCORE_INLINE void detail::wake_pipe::clear() noexcept {
  char bytes[256];
  while (::read(ends_[0], bytes, sizeof bytes) > 0) {
  }
}

RLCORE_INLINE line_process::line_process(const std::vector<std::string>& arguments, std::size_t longest_line)
    : longest_line_(longest_line) {
  std::vector<char*> argv;
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  int to[2] = {-1, -1}, from[2] = {-1, -1}, failed[2] = {-1, -1};
  if (!open_pipe(to) || !open_pipe(from) || !open_pipe(failed)) {
    const int why = errno;
    for (const int fd : {to[0], to[1], from[0], from[1], failed[0], failed[1]}) close_fd(fd);
    throw file_error("cannot make a pipe for '" + arguments[0] + "': " + std::strerror(why));
  }
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) run_child(argv.data(), to[0], from[1], failed[1], parent);
  const int fork_failure = errno;
  for (const int fd : {to[0], from[1], failed[1]}) close_fd(fd);
  in_ = to[1], out_ = from[0];
  int why = pid_ < 0 ? fork_failure : 0;
  if (pid_ > 0 && ::read(failed[0], &why, sizeof why) != sizeof why) why = 0;
  close_fd(failed[0]);
  if (why != 0) {
    close_fd(in_), close_fd(out_);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    throw file_error("cannot run '" + arguments[0] + "': " + std::strerror(why));
  }
  ::fcntl(in_, F_SETFL, ::fcntl(in_, F_GETFL) | O_NONBLOCK);
  start_guard();
}

RLCORE_INLINE void line_process::start_guard() {
  int ends[2] = {-1, -1};
  if (!open_pipe(ends)) return;  // the child itself still dies with this process
  const std::string group = std::to_string(pid_);
  // `read` fails at the end of the pipe, which this process closes by ending.
  const char* const words[] = {"sh", "-c", "read -r line || kill -9 -\"$1\"", "sh", group.c_str(), nullptr};
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, ends[0], 0);
  ::posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // signals of the terminal are not for it
  if (::posix_spawn(&guard_, "/bin/sh", &files, &attributes, const_cast<char* const*>(words), environ) != 0)
    guard_ = -1;
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  close_fd(ends[0]);
  lifeline_ = ends[1];
}

RLCORE_INLINE auto line_process::read_line(std::string& line, double seconds, int wake) -> status {
  using clock = std::chrono::steady_clock;
  const auto deadline =
      clock::now() + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(std::min(seconds, 1e9)));
  for (;;) {
    const std::size_t end = buffer_.find('\n', searched_);
    if (end != buffer_.npos) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1), searched_ = 0;
      return status::line;
    }
    searched_ = buffer_.size();
    if (buffer_.size() > longest_line_) return status::too_long;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now()).count();
    if (!exchange(static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000)), wake)) return status::end;
    if (woken_ && buffer_.size() == searched_) return status::woken;
    if (left <= 0 && buffer_.size() == searched_) return status::timeout;  // output received in time has been read
  }
}

RLCORE_INLINE std::string line_process::ending() {
  const int wait_status = finish(std::chrono::seconds(10));
  if (WIFSIGNALED(wait_status))
    return "signal " + std::to_string(WTERMSIG(wait_status)) + " (" + ::strsignal(WTERMSIG(wait_status)) + ")";
  return "exit code " + std::to_string(WEXITSTATUS(wait_status));
}

RLCORE_INLINE void line_process::run_child(char* const* argv, int in, int out, int failed, pid_t parent) {
  ::setpgid(0, 0);
#if defined(__linux__)
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
#else
  (void)parent;
#endif
  ::signal(SIGPIPE, SIG_DFL), ::signal(SIGXFSZ, SIG_DFL);
  if (::dup2(in, 0) >= 0 && ::dup2(out, 1) >= 0 && ::fcntl(0, F_SETFD, 0) == 0 && ::fcntl(1, F_SETFD, 0) == 0)
    ::execvp(argv[0], argv);
  const int why = errno;
  [[maybe_unused]] const auto told = ::write(failed, &why, sizeof why);
  ::_exit(127);
}

RLCORE_INLINE bool line_process::exchange(int milliseconds, int wake) {
  if (closing_ && pending_.empty()) close_fd(std::exchange(in_, -1));
  struct pollfd fds[3] = {{out_, POLLIN, 0}, {pending_.empty() ? -1 : in_, POLLOUT, 0}, {wake, POLLIN, 0}};
  woken_ = false;
  if (::poll(fds, 3, milliseconds) <= 0) return true;
  woken_ = (fds[2].revents & POLLIN) != 0;
  if ((fds[1].revents & (POLLOUT | POLLERR | POLLHUP)) != 0) send();
  if ((fds[0].revents & (POLLIN | POLLERR | POLLHUP)) == 0) return true;
  char bytes[1 << 16];
  const ssize_t n = ::read(out_, bytes, sizeof bytes);
  if (n > 0) buffer_.append(bytes, static_cast<std::size_t>(n));
  return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

RLCORE_INLINE void line_process::send() {
  sigset_t pipe_signal, before, waiting;
  ::sigemptyset(&pipe_signal), ::sigaddset(&pipe_signal, SIGPIPE);
  ::sigpending(&waiting);
  const bool was_waiting = ::sigismember(&waiting, SIGPIPE) == 1;
  ::pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  const ssize_t n = ::write(in_, pending_.data() + sent_, std::min<std::size_t>(pending_.size() - sent_, 1 << 16));
  const int why = n < 0 ? errno : 0;
  if (why == EPIPE && !was_waiting) {  // take the signal that this write has raised
    ::sigpending(&waiting);
    int taken = 0;
    if (::sigismember(&waiting, SIGPIPE) == 1) ::sigwait(&pipe_signal, &taken);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (n > 0) sent_ += static_cast<std::size_t>(n);
  if (2 * sent_ >= pending_.size()) pending_.erase(0, std::exchange(sent_, 0));
  if (n < 0 && why != EAGAIN && why != EINTR)
    pending_.clear(), sent_ = 0;  // it stopped reading; its output has the reason
}

RLCORE_INLINE int line_process::finish(std::chrono::milliseconds patience) {
  if (pid_ <= 0) return status_;
  close_fd(std::exchange(in_, -1)), close_fd(std::exchange(out_, -1));
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const auto gone = [&] {  // but not reaped yet: its number still belongs to it
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
  };
  while (!gone() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  ::kill(-pid_, SIGKILL);  // its group: also kills its remaining children
  if (guard_ > 0) {        // before the number of the group is free again
    ::kill(guard_, SIGKILL);
    ::waitpid(std::exchange(guard_, -1), nullptr, 0);
  }
  close_fd(std::exchange(lifeline_, -1));
  ::waitpid(pid_, &status_, 0);
  pid_ = -1;
  return status_;
}

}  // namespace agent
RLCORE_END
#endif
