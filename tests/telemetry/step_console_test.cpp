// What stdout gets as a terminal and as a pipe, and what console.log keeps.
#include "rlcore/telemetry/step_table.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>

#include "data/scratch.hpp"
#include "rlcore/telemetry/logger.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;
namespace fs = std::filesystem;

/// Chroots and small containers may have no /dev/ptmx.
bool no_terminals() {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master >= 0) close(master);
  return master < 0;
}
#define SKIP_WITHOUT_TERMINALS() \
  if (no_terminals()) GTEST_SKIP() << "this system has no terminals to give (/dev/ptmx)"

/// What f prints in a process whose stdout and stderr are a terminal.
std::string on_a_terminal(const std::function<void()>& f) {
  int master = -1;
  const pid_t child = forkpty(&master, nullptr, nullptr, nullptr);
  if (child == 0) {
    f();
    std::fflush(stdout);
    _exit(0);
  }
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(master, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  close(master);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return text;
}

metrics step() {
  metrics m;
  m.set("critic/rewards/mean", 0.5);
  m.set("timing_s/step", 2.0);
  m.set("perf/total_num_tokens", 100);
  return m;
}
constexpr const char* full = "critic/rewards/mean:0.5 - timing_s/step:2.0 - perf/total_num_tokens:100\n";

TEST(step_console, a_terminal_gets_the_table_and_the_file_all_metrics) {
  SKIP_WITHOUT_TERMINALS();
  const scratch::folder place;
  const fs::path root = place / "run";
  const std::string shown = on_a_terminal([&] {
    unsetenv("OMPI_COMM_WORLD_SIZE");
    logger log({"console"}, root);
    log.write(1, step(), {10, 18});
    log.write(2, step(), {10, 16});
  });
  EXPECT_NE(shown.find("   step  reward   time  tok/s   left\r\n   1/10   0.500  2.00s     50  18.0s\r\n"),
            std::string::npos)
      << shown;
  EXPECT_NE(shown.find("\033[2K   2/10 "), std::string::npos) << shown;
  EXPECT_EQ(shown.find("step:"), std::string::npos) << shown;
  EXPECT_EQ(scratch::read(root / "console.log"), std::string("step:1 - ") + full + "step:2 - " + full);
}

TEST(step_console, a_pipe_gets_verls_lines) {
  const scratch::folder place;
  testing::internal::CaptureStdout();
  logger({"console"}, place / "run").write(1, step(), {10, 18});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), std::string("step:1 - ") + full);
  EXPECT_FALSE(fs::exists(place / "run/console.log"));
}

TEST(step_console, the_key_decides_otherwise) {
  SKIP_WITHOUT_TERMINALS();
  EXPECT_EQ(named_console_style("short"), console_style::brief);
  EXPECT_EQ(named_console_style("verl"), console_style::verl);
  EXPECT_EQ(named_console_style(""), console_style::automatic);
  const scratch::folder place;
  testing::internal::CaptureStdout();
  logger({"console"}, place / "a", -1, "", console_style::brief).write(1, step(), {10, 18});
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "   step  reward   time  tok/s   left\n   1/10   0.500  2.00s     50  18.0s\n");
  EXPECT_EQ(scratch::read(place / "a/console.log"), std::string("step:1 - ") + full);
  const std::string shown =
      on_a_terminal([&] { logger({"console"}, place / "b", -1, "", console_style::verl).write(1, step(), {10, 18}); });
  EXPECT_NE(shown.find("step:1 - critic/rewards/mean:0.5"), std::string::npos) << shown;
  EXPECT_FALSE(fs::exists(place / "b/console.log"));
}

// mpirun gives its ranks a terminal for stdout though its own output may go to a file.
TEST(step_console, a_rank_of_mpirun_without_a_terminal_for_stderr) {
  SKIP_WITHOUT_TERMINALS();
  const scratch::folder place;
  const auto shown = [&](const char* ranks) {
    return on_a_terminal([&] {
      ranks != nullptr ? setenv("OMPI_COMM_WORLD_SIZE", ranks, 1) : unsetenv("OMPI_COMM_WORLD_SIZE");
      if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(1);
      logger({"console"}, place / "run").write(1, step(), {10, 18});
    });
  };
  EXPECT_NE(shown("2").find("step:1 - critic"), std::string::npos);
  EXPECT_NE(shown(nullptr).find("   1/10   0.500"), std::string::npos);
}

TEST(step_console, no_console_is_no_console_log) {
  const scratch::folder place;
  testing::internal::CaptureStdout();
  logger log({"file"}, place / "run", -1, "", console_style::brief);
  log.write(1, step());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(log.console_log(), "");
  EXPECT_FALSE(fs::exists(place / "run/console.log"));
}

// The lines follow metrics.jsonl: cut back on resume, set aside by a fresh run.
TEST(step_console, the_file_of_a_run_that_goes_on_or_begins_anew) {
  const scratch::folder place;
  const fs::path root = place / "run";
  testing::internal::CaptureStdout();
  const auto run = [&](std::int64_t resumed, std::int64_t from, std::int64_t to) {
    logger log({"console"}, root, resumed, "", console_style::brief);
    EXPECT_EQ(log.console_log(), root / "console.log");
    for (std::int64_t i = from; i <= to; ++i) log.write(i, step());
  };
  const auto lines = [](const fs::path& path) {
    std::istringstream in(scratch::read(path));
    std::string steps;
    for (std::string line; std::getline(in, line);) steps += line.substr(0, line.find(' ')) + " ";
    return steps;
  };
  run(-1, 1, 3);
  run(2, 3, 4);
  EXPECT_EQ(lines(root / "console.log"), "step:1 step:2 step:3 step:4 ");
  run(-1, 1, 1);
  EXPECT_EQ(lines(root / "console.log"), "step:1 ");
  // metrics.1.jsonl holds the row of step 3 that the second run computed again.
  EXPECT_EQ(lines(root / "console.2.log"), "step:1 step:2 step:3 step:4 ");
  EXPECT_TRUE(fs::exists(root / "metrics.2.jsonl"));
  testing::internal::GetCapturedStdout();
}

}  // namespace
}  // namespace RLCORE_TEST_ID
