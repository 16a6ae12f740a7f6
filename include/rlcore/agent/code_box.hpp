// The process in which a program of a language model runs: what it sees and what it may do.
#pragma once

#include <linux/filter.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace agent {

/// What a program may use, and how it is kept apart.
struct code_limits {
  double seconds = 30;                               ///< then it is killed; processor time: a second more
  std::size_t memory_bytes = std::size_t{1} << 30;   ///< address space of each of its processes
  std::size_t output_bytes = std::size_t{64} << 10;  ///< kept of each stream, the rest is dropped
  bool require_namespaces = false;                   ///< refuse to run where the kernel allows none
  bool use_namespaces = true;                        ///< false: run as where the kernel allows none
};

namespace detail {

/// Where programs run. All texts are ready before a process starts, since it may not allocate memory.
struct code_box {
  /// A file and its place.
  struct pair {
    std::string from, to;
  };
  std::string python, path;                        // the executable; PATH
  std::vector<pair> binds, links;                  // files and folders to show; symbolic links
  std::vector<std::string> folders, files;         // to create before
  std::vector<std::string> read_only;              // the places of `binds` and of mounts inside them
  std::string scratch, user_map, group_map;        // the folder of temporary files; lines for uid_map and gid_map
  std::uint32_t first_user = 0, users = 0;         // each program gets one of these user numbers; 0 users: it has ours
  bool namespaces = false, counts_by_box = false;  // the kernel counts processes by user namespace
};

/// What a new process needs. It shares our memory until it becomes Python, so it says here what failed.
struct code_start {
  const code_box& box;
  const code_limits& limits;
  std::string_view code;
  const char* folder = nullptr;
  std::vector<char*> argv{}, environment{};
  std::vector<sock_filter> filter{};
  std::uint32_t user = 0;  // 0: ours
  rlim_t processes = 32;
  int in = -1, out = -1, err = -1;
  const char* failed = nullptr;
  int why = 0;

  /// Notes the first step that failed.
  bool did(bool done, const char* what) noexcept {
    if (!done && failed == nullptr) failed = what, why = errno;
    return done;
  }
};

/// The working directory in namespaces.
inline constexpr const char* code_folder_name = "/tmp/code";

/// What programs of this Python see, as far as one can tell before one has run. Throws config_error without Python.
code_box find_code_box(const std::string& python);

/// The system calls that a program may make: none that reach out of its box and, without namespaces, no network, no
/// signals to others and no session of its own. Empty for processors whose calls are not known here.
std::vector<sock_filter> code_filter(bool namespaces);

/// Starts the process; -1, or `s.failed` and a process that has ended, if that fails. fork() would copy the page tables
/// of a trainer, and then every page that it writes; this process uses our memory until it becomes Python, as one of
/// posix_spawn() does, while this thread waits.
pid_t launch_code(code_start& s);

}  // namespace detail
}  // namespace agent
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_AGENT)
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace agent::detail {

/// The mount points of this system.
RLCORE_INLINE std::vector<std::string> mount_points() {
  std::vector<std::string> places;
  std::ifstream table("/proc/self/mountinfo");
  for (std::string line; std::getline(table, line); places.push_back(line)) {
    std::istringstream fields(line);
    for (int i = 0; i < 5; ++i) fields >> line;
    for (std::size_t at = line.find('\\'); at != line.npos && at + 3 < line.size(); at = line.find('\\', at + 1))
      line.replace(at, 4, 1, static_cast<char>(std::stoi(line.substr(at + 1, 3), nullptr, 8)));
  }
  return places;
}

/// Adds `place`, and what is mounted in it, to what programs see, unless they see it already.
RLCORE_INLINE void show_in_box(code_box& b, const std::filesystem::path& place,
                               const std::vector<std::string>& mounts) {
  std::error_code none;
  const std::string to = place.lexically_normal().string(), from = std::filesystem::canonical(place, none).string();
  const auto lies_in = [](const std::string& path, const std::string& folder) {
    return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
  };
  if (from.empty() || from == "/" || to == "/") return;
  for (const code_box::pair& p : b.binds)
    if (lies_in(to, p.to)) return;
  for (std::size_t at = to.find('/', 1); at != to.npos; at = to.find('/', at + 1))
    b.folders.push_back(to.substr(0, at));
  (std::filesystem::is_directory(from, none) ? b.folders : b.files).push_back(to);
  b.binds.push_back({"/old" + from, to});
  b.read_only.push_back(to);
  for (const std::string& m : mounts)
    if (m != from && lies_in(m, from)) b.read_only.push_back(to + m.substr(from.size()));
}

/// Asks Python where it lies: the executable, sys.prefix and sys.base_prefix.
RLCORE_INLINE std::vector<std::string> places_of_python(const std::string& python) {
  std::string word = "'";
  for (const char c : python) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  const std::string command =
      word + "' -I -c 'import sys; print(sys.executable, sys.prefix, sys.base_prefix, sep=chr(10))'";
  FILE* const answer = ::popen((command + " 2>/dev/null </dev/null").c_str(), "re");
  char bytes[3 * 4096];
  const std::size_t n = answer == nullptr ? 0 : std::fread(bytes, 1, sizeof bytes, answer);
  if (answer != nullptr) ::pclose(answer);
  std::istringstream lines(std::string(bytes, n));
  std::vector<std::string> places;
  for (std::string line; std::getline(lines, line);) places.push_back(line);
  if (places.size() != 3 || places[0].empty())
    throw config_error("cannot run '" + python + "', which runs the code that a policy writes");
  return places;
}

RLCORE_INLINE code_box find_code_box(const std::string& python) {
  namespace fs = std::filesystem;
  std::error_code none;
  const std::vector<std::string> places = places_of_python(python), mounts = mount_points();
  code_box b;
  b.python = places[0];
  b.path = fs::path(b.python).parent_path().string() + ":/usr/local/bin:/usr/bin:/bin";
  b.scratch = fs::canonical(fs::temp_directory_path(none), none).string();
  b.folders = {"/proc", "/dev"};
  show_in_box(b, "/usr", mounts);
  for (const char* name : {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}) {
    const fs::path target = fs::read_symlink(name, none);
    if (target.empty())
      show_in_box(b, name, mounts);
    else
      b.links.push_back({target.string(), name});
  }
  for (const char* name : {"/nix/store", "/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime", "/dev/null",
                           "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"})
    show_in_box(b, name, mounts);
  for (const std::string& prefix : {places[1], places[2]})
    show_in_box(b, prefix, mounts), show_in_box(b, fs::canonical(prefix, none), mounts);
  b.links.insert(b.links.end(), {{"/proc/self/fd", "/dev/fd"},
                                 {"/proc/self/fd/0", "/dev/stdin"},
                                 {"/proc/self/fd/1", "/dev/stdout"},
                                 {"/proc/self/fd/2", "/dev/stderr"},
                                 {"/tmp", "/dev/shm"}});
  // User numbers for programs: a quarter of the largest range that this process may use, from its first quarter on,
  // which no account has.
  std::ifstream map("/proc/self/uid_map");
  for (std::uint64_t first = 0, outside = 0, count = 0; map >> first >> outside >> count;)
    if (::geteuid() == 0 && count / 4 > b.users)
      b.first_user = static_cast<std::uint32_t>(first + count / 4), b.users = static_cast<std::uint32_t>(count / 4);
  if (b.users == 0) {
    b.user_map = "1000 " + std::to_string(::geteuid()) + " 1";
    b.group_map = "1000 " + std::to_string(::getegid()) + " 1";
  }
  utsname kernel{};
  int version = 0, revision = 0;
  if (::uname(&kernel) == 0 && std::sscanf(kernel.release, "%d.%d", &version, &revision) == 2)
    b.counts_by_box = std::pair(version, revision) >= std::pair(5, 14);
  return b;
}

/// In a filter: replaced by the number of the process.
inline constexpr std::uint32_t own_process = 0x7fffffff;

RLCORE_INLINE std::vector<sock_filter> code_filter(bool namespaces) {
  std::vector<sock_filter> f;
#if defined(__x86_64__) || defined(__aarch64__)
#if defined(__x86_64__)
  constexpr std::uint32_t machine = AUDIT_ARCH_X86_64;
#else
  constexpr std::uint32_t machine = AUDIT_ARCH_AARCH64;
#endif
  const auto step = [&](int code, std::size_t k) {
    f.push_back({static_cast<std::uint16_t>(code), 0, 0, static_cast<std::uint32_t>(k)});
  };
  const auto branch = [&](int test, long k, std::uint8_t yes, std::uint8_t no) {
    f.push_back({static_cast<std::uint16_t>(BPF_JMP | test | BPF_K), yes, no, static_cast<std::uint32_t>(k)});
  };
  const auto refuse = [&](int why) { step(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(why)); };
  const auto refuse_call = [&](long call, int why) { branch(BPF_JEQ, call, 0, 1), refuse(why); };
  const auto refuse_if = [&](long call, int test, long k, bool met) {  // by the call's first argument
    branch(BPF_JEQ, call, 0, 4), step(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args));
    branch(test, k, met ? 0 : 1, met ? 1 : 0), refuse(EPERM), step(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  };
  step(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
  branch(BPF_JEQ, static_cast<long>(machine), 1, 0), step(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  step(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  branch(BPF_JGE, 0x40000000, 0, 1), refuse(ENOSYS);  // numbers of x32
  for (const int call : {SYS_unshare, SYS_setns, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_bpf,
                         SYS_perf_event_open, SYS_userfaultfd, SYS_keyctl, SYS_add_key, SYS_request_key, 425})
    refuse_call(call, EPERM);  // 425: io_uring_setup
  refuse_call(435, ENOSYS);    // clone3, whose flags no filter sees
  refuse_if(SYS_clone, BPF_JSET, CLONE_NEWUSER, true);
  if (!namespaces) {
    for (const int call : {SYS_socket, SYS_setsid, SYS_setpgid, SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo})
      refuse_call(call, EPERM);
    refuse_call(424, EPERM);  // pidfd_send_signal
    for (const int call : {SYS_kill, SYS_tgkill}) refuse_if(call, BPF_JEQ, own_process, false);
    refuse_if(SYS_prlimit64, BPF_JEQ, 0, false);
  }
  step(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
#else
  (void)namespaces;
#endif
  return f;
}

/// Writes a file. By bare system calls, since TSan would take a descriptor of the new process for one of ours.
RLCORE_INLINE bool write_code_text(const char* path, std::string_view text) noexcept {
  const long fd = ::syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  while (fd >= 0 && !text.empty()) {
    const long n = ::syscall(SYS_write, fd, text.data(), text.size());
    if (n <= 0) break;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  const int why = errno;
  const bool written = fd >= 0 && ::syscall(SYS_close, fd) == 0 && text.empty();
  errno = why;
  return written;
}

/// Makes a file system of what a program may see the root of this process.
RLCORE_INLINE bool enter_code_box(code_start& s) noexcept {
  const code_box& b = s.box;
  constexpr unsigned long safe = MS_NOSUID | MS_NODEV;
  const auto mounts = [&](const char* from, const char* to, const char* type, unsigned long flags, const char* data) {
    return s.did(::mount(from, to, type, flags, data) == 0, to);
  };
  if (!b.user_map.empty()) {
    write_code_text("/proc/self/setgroups", "deny");
    if (!s.did(write_code_text("/proc/self/uid_map", b.user_map), "uid_map") ||
        !s.did(write_code_text("/proc/self/gid_map", b.group_map), "gid_map"))
      return false;
  }
  const char* const root = b.scratch.c_str();
  if (!mounts(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) ||
      !mounts("tmpfs", root, "tmpfs", safe, "size=1m,mode=755") ||
      !s.did(::chdir(root) == 0 && ::mkdir("old", 0700) == 0 && ::mkdir("tmp", 0700) == 0, root) ||
      !s.did(::syscall(SYS_pivot_root, ".", "old") == 0 && ::chdir("/") == 0, "pivot_root") ||
      !mounts("tmpfs", "/tmp", "tmpfs", safe, "size=64m,nr_inodes=4096,mode=1777"))
    return false;
  for (const std::string& f : b.folders) ::mkdir(f.c_str(), 0755);
  for (const std::string& f : b.files) write_code_text(f.c_str(), {});
  for (const code_box::pair& p : b.binds)
    if (!mounts(p.from.c_str(), p.to.c_str(), nullptr, MS_BIND | MS_REC, nullptr)) return false;
  for (const std::string& place : b.read_only) {
    struct statvfs found{};
    if (!s.did(::statvfs(place.c_str(), &found) == 0, place.c_str())) return false;
    const unsigned long kept = found.f_flag & (ST_NODEV | ST_NOEXEC);  // these bits have the values of MS_
    if (!mounts(nullptr, place.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | kept, nullptr))
      return false;
  }
  for (const code_box::pair& p : b.links) (void)!::symlink(p.from.c_str(), p.to.c_str());
  // Containers that hide parts of their own /proc allow no new one: then there is none.
  ::mount("proc", "/proc", "proc", safe | MS_NOEXEC, nullptr);
  return s.did(::umount2("/old", MNT_DETACH) == 0 && ::rmdir("/old") == 0, "/old") &&
         mounts(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | safe, nullptr);
}

/// Sets the limits of resources.
RLCORE_INLINE void limit_code(const code_start& s) noexcept {
  const auto limit = [](auto what, rlim_t most) {
    rlimit r{};
    ::getrlimit(what, &r);
    r.rlim_cur = r.rlim_max = std::min(most, r.rlim_max);
    ::setrlimit(what, &r);
  };
  limit(RLIMIT_CPU, static_cast<rlim_t>(std::ceil(s.limits.seconds)) + 1), limit(RLIMIT_AS, s.limits.memory_bytes);
  limit(RLIMIT_FSIZE, 16 << 20), limit(RLIMIT_NOFILE, 64), limit(RLIMIT_NPROC, s.processes), limit(RLIMIT_CORE, 0);
}

/// The new process, from clone() to Python. It only makes system calls, and bare ones where those of the C library
/// would also change what that knows of the process that owns this memory.
RLCORE_INLINE int start_code(void* data) noexcept {
  code_start& s = *static_cast<code_start*>(data);
  const unsigned long none[8] = {};  // no handler, no signal
  for (int n = 1; n <= 64; ++n) ::syscall(SYS_rt_sigaction, n, none, nullptr, 8);
  ::setsid(), ::umask(022), ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::syscall(SYS_keyctl, 1, nullptr);  // a session keyring of its own
  write_code_text("/proc/self/oom_score_adj", "1000");
  if (s.box.namespaces && !enter_code_box(s)) return 127;
  const std::uint32_t u = s.user;
  if (u != 0 && !s.did(::syscall(SYS_setgroups, 0, nullptr) == 0 && ::syscall(SYS_setresgid, u, u, u) == 0 &&
                           ::syscall(SYS_setresuid, u, u, u) == 0,
                       "setresuid"))
    return 127;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // setresuid() has cleared it
  if (s.box.namespaces && !s.did(::mkdir(s.folder, 0700) == 0, s.folder)) return 127;
  if (!s.did(::chdir(s.folder) == 0, s.folder)) return 127;
  if (s.box.namespaces && !s.did(write_code_text("main.py", s.code), "main.py")) return 127;
  long streams[3] = {s.in, s.out, s.err};
  for (long& fd : streams) fd = ::syscall(SYS_fcntl, fd, F_DUPFD, 3);
  for (int n = 0; n < 3; ++n)
    if (!s.did(::syscall(SYS_dup3, streams[n], n, 0) == n, "dup3")) return 127;
  if (::syscall(436, 3, ~0U, 0) != 0)  // close_range
    for (int n = 3; n < 65536; ++n) ::syscall(SYS_close, n);
  limit_code(s);
  ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (!s.did(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs")) return 127;
  for (sock_filter& f : s.filter)
    if (f.k == own_process) f.k = static_cast<std::uint32_t>(::getpid());
  const sock_fprog program = {static_cast<unsigned short>(s.filter.size()), s.filter.data()};
  if (!s.filter.empty()) ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, none, nullptr, 8);
  ::execve(s.argv[0], s.argv.data(), s.environment.data());
  s.did(false, s.argv[0]);
  return 127;
}

#if defined(__GLIBC__)
/// clone(), but past that of TSan, which expects a copy of the memory.
extern "C" int rlcore_clone(int (*function)(void*), void* stack, int flags, void* argument, ...) __asm__("__clone");
#endif

RLCORE_INLINE pid_t launch_code(code_start& s) {
  static const int dumpable = ::prctl(PR_GET_DUMPABLE);
  std::vector<char> stack(1 << 16);
  int flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
  if (s.box.namespaces) flags |= CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
  if (s.box.namespaces && !s.box.user_map.empty()) flags |= CLONE_NEWUSER;
  sigset_t all, before;
  ::sigfillset(&all);
  int cancel = 0;
  ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel), ::pthread_sigmask(SIG_SETMASK, &all, &before);
#if defined(__GLIBC__)
  constexpr auto clone = rlcore_clone;
#endif
  const pid_t pid = clone(start_code, stack.data() + stack.size(), flags, &s);
  s.did(pid > 0, "clone");
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr), ::pthread_setcancelstate(cancel, nullptr);
  if (s.user != 0) ::prctl(PR_SET_DUMPABLE, dumpable);  // a change of the user in this memory has cleared it
  return pid;
}

}  // namespace agent::detail
RLCORE_END
#endif
