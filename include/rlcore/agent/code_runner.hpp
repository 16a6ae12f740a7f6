// Runs Python programs that a language model wrote.
#pragma once

#include <string>
#include <string_view>

#include "rlcore/agent/code_box.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace agent {

/// How a program ended, and what it printed.
struct code_result {
  /// finished: by itself; timed_out: its time was up; killed: by a signal.
  enum class status { finished, timed_out, killed };
  status ended = status::finished;
  int exit_code = 0;     ///< the number of a signal is negative
  std::string out, err;  ///< UTF-8, with U+FFFD for each broken part
  double seconds = 0;
};

/// Runs Python programs, each in a session and, where the kernel allows it, in namespaces of its own: there it has no
/// network, sees only its own processes and, read-only, Python and the system's files, and writes to 64 MiB of memory.
/// Elsewhere it runs in a folder of its own with this machine's files, for root as a user that has no others; on x86-64
/// and AArch64 it can open no socket, begin no session and send no signal to others, its own children included. Always:
/// 16 MiB for a file, 64 open files, 32 processes and threads. In namespaces a program is process 1: a signal that it
/// sends to itself only calls its handler.
class code_runner {
 public:
  /// `python` is looked up in PATH. Throws config_error if programs cannot run, or not in the namespaces required.
  explicit code_runner(const code_limits& limits = {}, const std::string& python = "python3");

  /// Runs `code`, whose standard input is `stdin_text`; many threads may call it at once. Afterwards its
  /// processes have ended and its folder is gone. Throws file_error if this machine cannot run it.
  code_result run(std::string_view code, std::string_view stdin_text = {}) const;

  /// True if programs run in namespaces, which the constructor tries.
  bool has_namespaces() const noexcept { return box_.namespaces; }

  /// How programs are kept apart here: a sentence for the log.
  std::string isolation_note() const;

 private:
  bool works(std::string& why);

  code_limits limits_;
  detail::code_box box_;
  std::string no_namespaces_;  // why
};

}  // namespace agent
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_AGENT)
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "rlcore/text/utf8.hpp"

RLCORE_BEGIN
namespace agent {
namespace detail {

/// A descriptor that is closed at the end.
struct code_fd {
  int number = -1;

  code_fd() = default;
  explicit code_fd(int n) noexcept : number(n) {}
  code_fd(code_fd&& other) noexcept : number(std::exchange(other.number, -1)) {}
  code_fd& operator=(code_fd&& other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~code_fd() { close(); }
  /// Closes it now.
  void close() noexcept {
    if (number >= 0) ::close(std::exchange(number, -1));
  }
};

/// Throws file_error for a step that failed.
[[noreturn]] RLCORE_INLINE void code_failure(const std::string& what, int why) {
  throw file_error("cannot run code: " + what + ": " + std::strerror(why));
}

/// The names in a folder.
RLCORE_INLINE std::vector<std::string> names_in(int folder) {
  std::vector<std::string> names;
  DIR* const listing = ::fdopendir(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (listing == nullptr) return names;
  while (const dirent* e = ::readdir(listing))
    if (std::strcmp(e->d_name, ".") != 0 && std::strcmp(e->d_name, "..") != 0) names.emplace_back(e->d_name);
  ::closedir(listing);
  return names;
}

/// Removes all in a folder, whatever its permissions and depth: what folders inside hold moves up to it first.
RLCORE_INLINE void clear_folder(int folder) {
  std::vector<std::string> left = names_in(folder);
  for (std::size_t moved = 0; !left.empty();) {
    const std::string name = std::move(left.back());
    left.pop_back();
    if (::unlinkat(folder, name.c_str(), 0) == 0 || ::unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0) continue;
    ::fchmodat(folder, name.c_str(), 0700, 0);
    const code_fd inner(::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    for (const std::string& n : inner.number < 0 ? std::vector<std::string>() : names_in(inner.number)) {
      if (::unlinkat(inner.number, n.c_str(), 0) == 0) continue;
      ::fchmodat(inner.number, n.c_str(), 0700, 0);  // a folder that moves has to be writable
      int failed = 1;
      do {
        left.push_back(".moved" + std::to_string(++moved));
        failed = ::renameat(inner.number, n.c_str(), folder, left.back().c_str());
      } while (failed != 0 && (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR));
    }
    ::unlinkat(folder, name.c_str(), AT_REMOVEDIR);
  }
}

/// A private folder with a folder "code" of the user that runs the program, which holds main.py.
class code_folder {
 public:
  code_folder(const std::string& scratch, std::string_view code, std::uint32_t user)
      : path_(scratch + "/rlcore-code-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) code_failure(path_, errno);
    const std::string file = inner() + "/main.py";
    bool made = ::mkdir(inner().c_str(), 0700) == 0 && write_code_text(file.c_str(), code);
    if (made && user != 0)
      made = ::chmod(path_.c_str(), 0711) == 0 && ::chown(file.c_str(), user, user) == 0 &&
             ::chown(inner().c_str(), user, user) == 0;
    const int why = errno;
    folder_ = code_fd(::open(inner().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (made && folder_.number >= 0) return;
    remove();
    code_failure(file, why);
  }
  code_folder(const code_folder&) = delete;
  code_folder& operator=(const code_folder&) = delete;
  ~code_folder() { remove(); }
  /// The path of "code".
  std::string inner() const { return path_ + "/code"; }

 private:
  void remove() {
    if (folder_.number >= 0) ::fchmod(folder_.number, 0700), clear_folder(folder_.number);
    ::rmdir(inner().c_str()), ::rmdir(path_.c_str());
  }

  std::string path_;
  code_fd folder_;
};

/// A stream of a program. The beginning is kept.
struct code_stream {
  code_fd ours, theirs;
  std::string text;
  std::size_t limit;

  explicit code_stream(std::size_t most) : limit(most) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) code_failure("pipe", errno);
    ours = code_fd(ends[0]), theirs = code_fd(ends[1]);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }
  /// The number of bytes that came; 0 if there are none now. Closes at the end.
  std::size_t receive() {
    char bytes[1 << 16];
    const ssize_t n = ours.number < 0 ? 0 : ::read(ours.number, bytes, sizeof bytes);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) ours.close();
    if (n <= 0) return 0;
    // Up to three bytes more tell whether the last character is whole.
    text.append(bytes, std::min(static_cast<std::size_t>(n), limit + 3 - std::min(limit + 3, text.size())));
    return static_cast<std::size_t>(n);
  }
  /// What was kept, in UTF-8; a character that the limit cuts is left out.
  std::string whole() const {
    std::size_t end = std::min(limit, text.size());
    for (std::size_t back = 1; back <= 3 && back <= end && end < text.size(); ++back) {
      const text::utf8_step step = text::read_utf8(text, end - back);
      if (step.type == text::utf8_step::kind::character && step.length > back) {
        end -= back;
        break;
      }
    }
    return text::utf8_lossy(std::string_view(text).substr(0, end));
  }
};

/// The threads of a user, whom the kernel may count together with those of a program.
RLCORE_INLINE rlim_t threads_of(uid_t user) {
  rlim_t count = 0;
  const code_fd processes(::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (const std::string& name : processes.number < 0 ? std::vector<std::string>() : names_in(processes.number)) {
    struct stat task{};
    if (name[0] < '0' || name[0] > '9' || ::fstatat(processes.number, (name + "/task").c_str(), &task, 0) != 0)
      continue;
    if (task.st_uid == user) count += std::max<rlim_t>(task.st_nlink, 3) - 2;
  }
  return count;
}

/// Waits for the end of the process or of its time, then ends whatever is left of it.
RLCORE_INLINE void follow_code(pid_t pid, std::chrono::steady_clock::time_point deadline, code_stream& out,
                               code_stream& err, code_result& result, double processor_seconds) {
  using status = code_result::status;
  const code_fd end(static_cast<int>(::syscall(434, pid, 0)));  // pidfd_open
  const auto ended = [&] {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid;
  };
  bool late = false;
  while (!ended()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if ((late = left <= 0)) break;
    pollfd wait[3] = {{out.ours.number, POLLIN, 0}, {err.ours.number, POLLIN, 0}, {end.number, POLLIN, 0}};
    ::poll(wait, 3, static_cast<int>(std::min<std::int64_t>(left, end.number < 0 ? 5 : 60'000)));
    if (wait[0].revents != 0) out.receive();
    if (wait[1].revents != 0) err.receive();
  }
  ::kill(-pid, SIGKILL), ::kill(pid, SIGKILL);  // its number is ours until wait4()
  int code = 0;
  rusage used{};
  pid_t waited = -1;
  do {
    waited = ::wait4(pid, &code, 0, &used);
  } while (waited < 0 && errno == EINTR);
  if (waited != pid) code_failure("wait4", errno);
  // What is in the pipes. Without namespaces a process that got away may still be writing.
  for (code_stream* s : {&out, &err})
    for (std::size_t got = 0, n = 0; got < (2u << 20) && (n = s->receive()) > 0;) got += n;
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  const bool worked_too_long = seconds(used.ru_utime) + seconds(used.ru_stime) >= processor_seconds;
  result.exit_code = WIFEXITED(code) ? WEXITSTATUS(code) : -WTERMSIG(code);
  if (late || result.exit_code == -SIGXCPU || (result.exit_code == -SIGKILL && worked_too_long))
    result.ended = status::timed_out;
  else if (result.exit_code < 0)
    result.ended = status::killed;
}

}  // namespace detail

RLCORE_INLINE code_runner::code_runner(const code_limits& limits, const std::string& python) : limits_(limits) {
  if (!(limits.seconds > 0 && limits.seconds <= 1e6))
    throw config_error("time limit of code: expected more than 0 and at most 1000000 seconds, found " +
                       std::to_string(limits.seconds));
  box_ = detail::find_code_box(python);
  box_.namespaces = true;
  if (limits.use_namespaces && works(no_namespaces_)) return;
  if (!limits.use_namespaces) no_namespaces_ = "they are turned off";
  if (limits.require_namespaces) throw config_error("namespaces are required to run code: " + no_namespaces_);
  box_.namespaces = false;
  std::string why;
  if (works(why)) return;
  if (box_.users > 0) {  // other users may not reach the folder of temporary files, or not read this Python
    const std::string scratch = std::exchange(box_.scratch, "/tmp");
    if (works(why)) return;
    box_.users = 0, box_.scratch = scratch;
  }
  if (!works(why)) throw config_error("'" + python + "' cannot run code: " + why);
}

RLCORE_INLINE bool code_runner::works(std::string& why) {
  const double seconds = std::exchange(limits_.seconds, std::max(limits_.seconds, 60.0));  // whatever else runs here
  try {
    const code_result r = run("print(input())", "ready");
    why =
        r.out == "ready\n" ? "" : "a first program ended with exit code " + std::to_string(r.exit_code) + ": " + r.err;
  } catch (const error& e) {
    why = e.what();
  }
  limits_.seconds = seconds;
  return why.empty();
}

RLCORE_INLINE std::string code_runner::isolation_note() const {
  if (box_.namespaces) return "code runs in namespaces of its own: no network, nothing of this machine's files";
  const bool root = box_.users == 0 && ::geteuid() == 0;
  return "code runs without namespaces (" + no_namespaces_ + "), as " +
         (box_.users > 0 ? "a user without a name"
          : root         ? "root"
                         : "this user") +
         ": this is not a security boundary";
}

RLCORE_INLINE code_result code_runner::run(std::string_view code, std::string_view stdin_text) const {
  using detail::code_failure;
  static std::atomic<std::uint32_t> number{static_cast<std::uint32_t>(::getpid()) * 2654435761u};
  const auto start = std::chrono::steady_clock::now();
  detail::code_start s{box_, limits_, code};
  if (box_.users > 0) s.user = box_.first_user + ++number % box_.users;
  if (s.user == 0 && !(box_.namespaces && box_.counts_by_box)) s.processes += detail::threads_of(::getuid());
  std::optional<detail::code_folder> folder;
  if (!box_.namespaces) folder.emplace(box_.scratch, code, s.user);
  const std::string home = folder ? folder->inner() : detail::code_folder_name;
  s.folder = home.c_str();
  std::string words[] = {box_.python, "-s", "-B",
                         "main.py"};  // -I would ignore the hash seed, and with it the order of sets
  std::string variables[] = {"PATH=" + box_.path, "HOME=" + home, "LANG=C.UTF-8", "PYTHONHASHSEED=0", "TMPDIR=" + home};
  for (std::string& w : words) s.argv.push_back(w.data());
  for (std::string& v : variables) s.environment.push_back(v.data());
  if (!folder) s.environment.pop_back();
  s.argv.push_back(nullptr), s.environment.push_back(nullptr);
  s.filter = detail::code_filter(box_.namespaces);

  const detail::code_fd in(::memfd_create("stdin", MFD_CLOEXEC));
  for (std::string_view rest = stdin_text; in.number >= 0 && !rest.empty();) {
    const ssize_t n = ::write(in.number, rest.data(), rest.size());
    if (n <= 0) code_failure("standard input", errno);
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  if (in.number < 0 || ::lseek(in.number, 0, SEEK_SET) != 0) code_failure("standard input", errno);
  detail::code_stream out(limits_.output_bytes), err(limits_.output_bytes);
  s.in = in.number, s.out = out.theirs.number, s.err = err.theirs.number;
  const pid_t pid = detail::launch_code(s);
  if (s.failed != nullptr) {
    if (pid > 0) ::waitpid(pid, nullptr, 0);
    code_failure(s.failed, s.why);
  }
  out.theirs.close(), err.theirs.close();
  const auto time = std::chrono::duration<double>(limits_.seconds);
  code_result result;
  detail::follow_code(pid, start + std::chrono::duration_cast<std::chrono::steady_clock::duration>(time), out, err,
                      result, std::ceil(limits_.seconds) + 1);
  result.out = out.whole(), result.err = err.whole();
  for (std::string* text : {&result.out, &result.err})  // one name of the folder, as in namespaces
    for (std::size_t at = folder ? text->find(home) : text->npos; at != text->npos; at = text->find(home, at + 1))
      text->replace(at, home.size(), detail::code_folder_name);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace agent
RLCORE_END
#endif
