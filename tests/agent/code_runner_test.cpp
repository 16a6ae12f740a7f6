// Programs that a language model might write: what they may do, and that nothing of them is left.
#include "rlcore/agent/code_runner.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "data/scratch.hpp"
#include "support/has_python.hpp"
#include "support/thrown.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using agent::code_limits;
using agent::code_result;
using agent::code_runner;
using status = code_result::status;

/// A Python that every user can read, if there is one.
const char* some_python() { return std::filesystem::exists("/usr/bin/python3") ? "/usr/bin/python3" : "python3"; }

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}
std::size_t open_descriptors() { return names_in("/proc/self/fd").size(); }
bool has_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/// Both ways to run programs: with namespaces (true) and without.
class code_runners : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!has_python()) GTEST_SKIP() << "needs python3";
    std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));  // for the users of root's programs
    setenv("TMPDIR", folder_.path().c_str(), 1);
    runner_ = std::make_unique<code_runner>(limits(), some_python());
    if (GetParam() && !runner_->has_namespaces()) GTEST_SKIP() << runner_->isolation_note();
    descriptors_ = open_descriptors();
  }
  void TearDown() override {
    if (before_.empty())
      unsetenv("TMPDIR");
    else
      setenv("TMPDIR", before_.c_str(), 1);
    if (!runner_) return;
    EXPECT_EQ(names_in(folder_.path()), kept_);
    EXPECT_EQ(open_descriptors(), descriptors_);
    EXPECT_FALSE(has_children());
  }
  static code_limits limits(double seconds = 20) { return {.seconds = seconds, .use_namespaces = GetParam()}; }
  code_result run(const std::string& code, const std::string& in = "") const { return runner_->run(code, in); }
  code_result run_for(double seconds, const std::string& code) const {
    return code_runner(limits(seconds), some_python()).run(code);
  }
  /// True if the filter of system calls is on.
  bool has_filter() const { return run("print('Seccomp:\\t2' in open('/proc/self/status').read())").out == "True\n"; }
  /// True if the kernel limits the number of the program's processes: not root's.
  bool has_process_limit() const { return run("import os\nprint(os.getuid())").out != "0\n"; }
  void expect_output(const std::string& code, const std::string& out) const {
    const code_result r = run(code);
    EXPECT_EQ(r.out, out) << r.err;
    EXPECT_EQ(r.ended, status::finished);
  }

  std::string before_ = std::getenv("TMPDIR") == nullptr ? "" : std::getenv("TMPDIR");
  scratch::folder folder_;
  std::set<std::string> kept_;  // what a test itself has put there
  std::unique_ptr<code_runner> runner_;
  std::size_t descriptors_ = 0;
};
INSTANTIATE_TEST_SUITE_P(with_and_without_namespaces, code_runners, testing::Bool(),
                         [](const auto& way) { return way.param ? "namespaces" : "none"; });

TEST_P(code_runners, prints) {
  const code_result r = run("import sys\nprint('hello')\nprint('and this', file=sys.stderr)");
  EXPECT_EQ(r.out, "hello\n");
  EXPECT_EQ(r.err, "and this\n");
  EXPECT_EQ(r.ended, status::finished);
  EXPECT_EQ(r.exit_code, 0);
  EXPECT_GT(r.seconds, 0);
  EXPECT_LT(r.seconds, 20);
  expect_output("", "");
  expect_output("print('\xC3\xA4\xE2\x82\xAC')", "\xC3\xA4\xE2\x82\xAC\n");
}

TEST_P(code_runners, read_the_input) {
  EXPECT_EQ(run("print(input()[::-1], input())", "abc\nd").out, "cba d\n");
  EXPECT_EQ(run("import sys\nprint(len(sys.stdin.read()))", std::string(3 << 20, 'x')).out, "3145728\n");
  EXPECT_EQ(run("print(open('/dev/stdin').read())", "abc").out, "abc\n");
  EXPECT_NE(run("input()").err.find("EOFError"), std::string::npos);
  EXPECT_EQ(run("pass", std::string(1 << 20, 'x')).ended, status::finished);  // it is not read
}

TEST_P(code_runners, have_an_exit_code) {
  EXPECT_EQ(run("import sys\nsys.exit(7)").exit_code, 7);
  const code_result r = run("def f():\n  return 1 / 0\nf()");
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_EQ(r.ended, status::finished);
  EXPECT_TRUE(
      r.err.starts_with("Traceback (most recent call last):\n  File \"/tmp/code/main.py\", line 3, in <module>"))
      << r.err;
  EXPECT_NE(r.err.find("ZeroDivisionError: division by zero\n"), std::string::npos);
  EXPECT_NE(run("print(1").err.find("SyntaxError"), std::string::npos);
  EXPECT_EQ(run(std::string("a\0b", 3)).exit_code, 1);
}

TEST_P(code_runners, may_be_killed) {
  const code_result r = run("import ctypes\nprint('a', flush=True)\nctypes.string_at(0)");
  EXPECT_EQ(r.ended, status::killed);
  EXPECT_EQ(r.exit_code, -SIGSEGV);
  EXPECT_EQ(r.out, "a\n");
}

TEST_P(code_runners, see_no_variables) {
  setenv("RLCORE_SECRET", "1", 1);
  const code_result r =
      run("import os\nprint(sorted(set(os.environ) - {'TMPDIR', 'LC_CTYPE', 'PYTHONHASHSEED'}), os.getcwd() == "
          "os.environ['HOME'])");
  EXPECT_EQ(r.out, "['HOME', 'LANG', 'PATH'] True\n");
  unsetenv("RLCORE_SECRET");
}

TEST_P(code_runners, have_no_descriptors_of_ours) {
  const int mine = ::dup(0);                                                                         // without CLOEXEC
  expect_output("import os\nprint(sorted(os.listdir('/proc/self/fd')))", "['0', '1', '2', '3']\n");  // 3: the folder
  ::close(mine);
}

TEST_P(code_runners, are_stopped_in_an_endless_loop) {
  const code_result r = run_for(0.5, "print('begun', flush=True)\nwhile True: pass");
  EXPECT_EQ(r.ended, status::timed_out);
  EXPECT_EQ(r.out, "begun\n");
  EXPECT_GE(r.seconds, 0.5);
  EXPECT_LT(r.seconds, 15);
  EXPECT_EQ(run_for(0.3,
                    "import time, signal\nfor s in range(1, 65):\n  try: signal.signal(s, signal.SIG_IGN)\n"
                    "  except Exception: pass\ntime.sleep(1000)")
                .ended,
            status::timed_out);
}

TEST_P(code_runners, are_stopped_by_processor_time) {
  const code_result r = run("import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass");
  EXPECT_TRUE(r.ended == status::killed || r.ended == status::timed_out);
}

TEST_P(code_runners, cannot_bomb) {
  if (!has_process_limit()) GTEST_SKIP() << "programs run as root";
  const code_result r = run_for(
      1,
      "import os, time\nn = 0\nwhile True:\n  try:\n    if os.fork() == 0: n = 0\n    n += 1\n  except OSError:\n"
      "    if n: print('full', flush=True)\n    n = 0\n    time.sleep(0.01)");
  EXPECT_EQ(r.ended, status::timed_out);
  EXPECT_NE(r.out.find("full"), std::string::npos);
  EXPECT_LT(r.seconds, 15);
  EXPECT_EQ(run("print(1)").out, "1\n");
  const code_result t =
      run("import threading, time\nn = 0\ntry:\n  for i in range(100):\n    threading.Thread(target="
          "time.sleep, args=(0.5,)).start()\n    n += 1\nexcept RuntimeError: pass\nprint(n < 100)");
  EXPECT_EQ(t.out, "True\n") << t.err;
}

TEST_P(code_runners, cannot_take_all_memory) {
  const code_result r = run("x = bytearray(10 << 30)");
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_NE(r.err.find("MemoryError"), std::string::npos) << r.err;
  EXPECT_EQ(run("x = bytearray(100 << 20)\nprint(len(x))").out, "104857600\n");
}

TEST_P(code_runners, may_print_without_end) {
  const code_result r = run_for(0.7, "while True: print('x' * 99)");
  EXPECT_EQ(r.ended, status::timed_out);
  EXPECT_EQ(r.out.size(), 64u << 10);
  const code_result both = run("import sys\nfor i in range(50000): print(i); print(i, file=sys.stderr)");
  EXPECT_EQ(both.ended, status::finished);
  EXPECT_EQ(both.out.size(), 64u << 10);
  EXPECT_EQ(both.err, both.out);
}

TEST_P(code_runners, are_cut_between_characters) {
  const code_runner r({.seconds = 20, .output_bytes = 8, .use_namespaces = GetParam()}, some_python());
  const auto out = [&](const std::string& code) { return r.run("print('" + code + "', end='')").out; };
  EXPECT_EQ(out("1234567\xC3\xA4"), "1234567");
  EXPECT_EQ(out("123456\xC3\xA4"), "123456\xC3\xA4");
  EXPECT_EQ(out("123456\xC3\xA4"
                "9"),
            "123456\xC3\xA4");
  EXPECT_EQ(out("12345\xF0\x9F\x98\x80"), "12345");
  EXPECT_EQ(out("1234\xF0\x9F\x98\x80"), "1234\xF0\x9F\x98\x80");
  EXPECT_EQ(out("123456789"), "12345678");
}

TEST_P(code_runners, print_bytes_as_python_decodes_them) {
  const std::string code =
      "import sys\nb = bytes((i * 7919 + i // 3) % 256 for i in range(3000)) + b'\\xf0\\x9f\\x98'\n";
  const code_result raw = run(code + "sys.stdout.buffer.write(b)");
  EXPECT_EQ(raw.out, run(code + "sys.stdout.write(b.decode('utf-8', 'replace'))").out);
  EXPECT_NE(raw.out.find("\xEF\xBF\xBD"), std::string::npos);
}

TEST_P(code_runners, may_write_files) {
  expect_output(
      "open('a', 'w').write('x')\nprint(open('a').read())\nimport tempfile\n"
      "with tempfile.TemporaryFile() as f: print(f.write(b'abc'))",
      "x\n3\n");
  EXPECT_NE(run("open('a', 'wb').write(bytes(17 << 20))").err.find("File too large"), std::string::npos);
  expect_output("print(open('a', 'wb').write(bytes(16 << 20)))", "16777216\n");
}

TEST_P(code_runners, may_flood_their_folder) {
  const code_result r =
      run("import os\nn = 0\ntry:\n  while n < 6000:\n    open(str(n), 'w').close()\n    n += 1\n"
          "except OSError as e: print(e.errno)\nprint(n)");
  EXPECT_EQ(r.ended, status::finished);
  if (GetParam()) {
    EXPECT_TRUE(r.out.starts_with("28\n")) << r.out;  // ENOSPC
    EXPECT_NE(run("for i in range(9): open(str(i), 'wb').write(bytes(16 << 20))").err.find("No space left"),
              std::string::npos);
  }
}

TEST_P(code_runners, may_hide_their_files) {
  expect_output(
      "import os\nos.makedirs('a/b/c')\nopen('a/b/c/f', 'w').close()\nos.chmod('a/b/c/f', 0)\nos.chmod('a/b/c', 0)\n"
      "os.chmod('a/b', 0o500)\nos.chmod('a', 0)\nos.symlink('/', 'l')\nos.mkfifo('p')\nos.chmod('.', 0)\nprint(1)",
      "1\n");
  expect_output(
      "import os\nfor i in range(300):\n  os.mkdir('d')\n  os.mkdir('.moved' + str(i % 7))\n  os.chdir('d')\nprint(1)",
      "1\n");
}

TEST_P(code_runners, have_no_network) {
  const std::string code =
      "import socket\ntry:\n  socket.create_connection((ADDRESS, 80), 3)\n  print('open')\n"
      "except OSError as e: print('refused')";
  if (!GetParam() && !has_filter()) GTEST_SKIP() << "no filter of system calls here";
  for (const char* address : {"'1.1.1.1'", "'127.0.0.1'", "'::1'"}) {
    std::string program = code;
    program.replace(program.find("ADDRESS"), 7, address);
    expect_output(program, "refused\n");
  }
}

TEST_P(code_runners, send_no_signal_to_us) {
  if (GetParam()) {
    expect_output("import os, signal\nos.kill(-1, 0) if os.getpid() != 1 else None\nprint(os.getpid(), os.getppid())",
                  "1 0\n");
    // Process 1 does not reach beyond its namespace.
    expect_output(
        "import os\nfor p in (os.getppid(), -1):\n  try: os.kill(p, 9)\n  except OSError: pass\nprint('alive')",
        "alive\n");
    expect_output("import os\ntry: os.kill(" + std::to_string(::getpid()) + ", 0)\nexcept OSError as e: print(e.errno)",
                  "3\n");
  } else {
    if (!has_filter()) GTEST_SKIP() << "no filter of system calls here";
    expect_output(
        "import os\nfor p in (os.getppid(), -1, 0, 1):\n  try: os.kill(p, 0)\n  except OSError as e: print(e.errno)",
        "1\n1\n1\n1\n");
    EXPECT_EQ(run("import os\nos.kill(os.getpid(), 15)").exit_code, -SIGTERM);
  }
}

TEST_P(code_runners, do_not_see_the_users_files) {
  if (!GetParam()) GTEST_SKIP() << "only with namespaces";
  const std::filesystem::path mine = folder_ / "mine";
  std::ofstream(mine) << "secret";
  kept_ = {"mine"};
  expect_output("import os\nprint(os.path.exists('" + mine.string() + "'), os.path.exists('" +
                    std::filesystem::current_path().string() + "'), os.path.exists('/etc/passwd'))",
                "False False False\n");
  const char* home = std::getenv("HOME");
  if (home != nullptr && std::string(some_python()) == "/usr/bin/python3")
    expect_output("import os\nprint(os.path.exists('" + std::string(home) + "'))", "False\n");
}

TEST_P(code_runners, write_nowhere_else) {
  if (!GetParam()) GTEST_SKIP() << "only with namespaces";
  expect_output(
      "import os\nfor p in ('/a', '/usr/a', '/usr/bin/a', '/dev/a', '/proc/sys/kernel/core_pattern', '/etc/a'):\n"
      "  try: open(p, 'w')\n  except OSError as e: print(e.errno in (13, 30))",
      "True\nTrue\nTrue\nTrue\nTrue\nTrue\n");
  expect_output(
      "import ctypes\nc = ctypes.CDLL(None, use_errno=True)\n"
      "print(c.mount(b'none', b'/tmp', b'tmpfs', 0, None), c.unshare(0x10000000), c.umount2(b'/usr', 2))",
      "-1 -1 -1\n");
  expect_output(
      "print([l for l in open('/proc/self/status') if l.startswith(('CapPrm', 'CapEff', 'CapInh', 'CapAmb'))] =="
      " ['CapInh:\\t0000000000000000\\n', 'CapPrm:\\t0000000000000000\\n', 'CapEff:\\t0000000000000000\\n', "
      "'CapAmb:\\t0000000000000000\\n'])",
      "True\n");
}

TEST_P(code_runners, leave_no_child_in_the_background) {
  const std::string mark = "rlcore" + std::to_string(::getpid());
  const code_result r =
      run("import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)', '" + mark +
          "'])\nprint('done')");
  EXPECT_EQ(r.out, "done\n") << r.err;
  EXPECT_LT(r.seconds, 15);
  const code_result s = run(
      "import os, time\nif os.fork() == 0:\n  try: os.setsid()\n  except OSError: pass\n  os.execv('/bin/sleep', ['" +
      mark + "', '1000'])\nprint('done')");
  EXPECT_EQ(s.out, "done\n") << s.err;
  EXPECT_LT(s.seconds, 15);
  if (!GetParam() && !has_filter()) return;
  const auto alive = [&] {
    for (const std::string& name : names_in("/proc"))
      if (name[0] >= '0' && name[0] <= '9' && std::stol(name) != ::getpid() &&
          scratch::read("/proc/" + name + "/cmdline").find(mark) != std::string::npos)
        return true;
    return false;
  };
  for (int i = 0; i < 200 && alive(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_FALSE(alive());
}

TEST_P(code_runners, leave_nothing) {
  const char* wish = std::getenv("RLCORE_CODE_CALLS");
  const int calls = wish != nullptr ? std::atoi(wish) : 250;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) {
    ASSERT_EQ(run("import os\nprint(" + std::to_string(i) + ")\nopen('f', 'w').write('x')").out,
              std::to_string(i) + "\n");
    ASSERT_EQ(open_descriptors(), descriptors_);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  RecordProperty("milliseconds_per_call", std::to_string(1e3 * seconds / calls));
}

TEST_P(code_runners, run_in_many_threads) {
  std::vector<std::thread> threads;
  std::vector<int> right(8);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        const std::string text = std::to_string(100 * t + i);
        const code_result r = run("import os\nprint(input(), os.listdir('.'))", text);
        right[static_cast<std::size_t>(t)] += r.out == text + " ['main.py']\n";
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, std::vector<int>(8, 5));
}

TEST_P(code_runners, do_not_change_this_process) {
  const auto ids = [] {
    std::string text;
    std::ifstream in("/proc/self/status");
    for (std::string line; std::getline(in, line);)
      if (line.starts_with("Uid") || line.starts_with("Cap") || line.starts_with("Sig") ||
          line.starts_with("Seccomp") || line.starts_with("NoNewPrivs"))
        text += line + '\n';
    return text + std::to_string(::prctl(PR_GET_DUMPABLE)) + scratch::read("/proc/self/oom_score_adj") +
           std::filesystem::read_symlink("/proc/self/ns/mnt").string() + scratch::read("/proc/self/limits");
  };
  const std::string before = ids();
  run("print(1)");
  EXPECT_EQ(ids(), before);
}

TEST_P(code_runners, say_how_they_are_kept_apart) {
  const std::string note = runner_->isolation_note();
  EXPECT_EQ(note.find("namespaces of its own") != note.npos, GetParam()) << note;
  EXPECT_EQ(note.find("not a security boundary") != note.npos, !GetParam()) << note;
}

TEST(code_runner, refuses_what_cannot_run) {
  if (!has_python()) GTEST_SKIP() << "needs python3";
  EXPECT_EQ(thrown_by([] { code_runner({}, "no-such-python's"); }),
            "cannot run 'no-such-python's', which runs the code that a policy writes");
  EXPECT_NE(thrown_by([] { code_runner({.seconds = 0}); }).find("time limit of code: expected more than 0"),
            std::string::npos);
  EXPECT_EQ(thrown_by([] { code_runner({.require_namespaces = true, .use_namespaces = false}); }),
            "namespaces are required to run code: they are turned off");
  EXPECT_NE(thrown_by([] { code_runner({.memory_bytes = 1 << 20}); }).find("cannot run code: "), std::string::npos);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
