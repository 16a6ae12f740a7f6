#include "rlcore/parallel/communicator/watchdog.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/parallel/communicator/flight_recorder.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::parallel;
using namespace std::chrono_literals;
using testing::ExitedWithCode;
using testing::HasSubstr;

std::string text(const fixed_text& t) { return t.text(); }
std::string description(const flight_recorder& r) {
  fixed_text t;
  r.describe(t);
  return text(t);
}
collective_call gather(std::size_t count) { return {collective::all_gather, {4, 'f'}, count, 0}; }

TEST(fixed_text, has_numbers_and_an_end) {
  fixed_text t;
  t.add("a ").add(std::numeric_limits<int>::min()).add(" ").add(std::uint64_t{0}).add(" ");
  t.add(std::numeric_limits<std::uint64_t>::max()).add(" ").add_seconds(12'345'000'000);
  EXPECT_EQ(text(t), "a -2147483648 0 18446744073709551615 12.3 s");
  for (int i = 0; i < 1000; ++i) t.add("0123456789");
  EXPECT_EQ(t.size(), 511u);
  EXPECT_EQ(text(t).size(), 511u);
}

TEST(flight_recorder, says_where_the_process_is) {
  flight_recorder r;
  EXPECT_EQ(description(r), "before its first collective");
  EXPECT_EQ(r.waiting(), -1);
  r.begin({}, 3);
  EXPECT_THAT(description(r), testing::MatchesRegex("in collective 1, barrier of 3 ranks, for [0-9.]+ s"));
  EXPECT_GE(r.waiting(), 0);
  r.end();
  EXPECT_EQ(description(r), "after collective 1, barrier of 3 ranks");
  EXPECT_EQ(r.begin({collective::shift, {8, 'i'}, 5, -2}, 2), 2u);
  EXPECT_THAT(description(r), HasSubstr("in collective 2, shift (5 elements of 8 bytes, by -2) of 2 ranks"));
}

TEST(flight_recorder, keeps_the_last_64) {
  flight_recorder r;
  for (std::size_t n = 1; n <= 100; ++n) {
    r.begin(gather(n), 4);
    if (n < 100) r.end();
  }
  std::FILE* file = std::tmpfile();
  r.dump(fileno(file), 7);
  std::rewind(file);
  std::vector<std::string> lines;
  for (char line[512]; std::fgets(line, sizeof(line), file) != nullptr;) lines.emplace_back(line);
  std::fclose(file);
  ASSERT_EQ(lines.size(), 64u);
  EXPECT_THAT(lines.front(), HasSubstr("rank 7 collective 37, all_gather (37 elements of 4 bytes, root 0) of 4 ranks"));
  EXPECT_THAT(lines.front(), HasSubstr("took"));
  EXPECT_THAT(lines.back(), HasSubstr("collective 100, "));
  EXPECT_THAT(lines.back(), HasSubstr("not ended"));
}

/// Memory for a board of `ranks`.
struct memory {
  explicit memory(int ranks) : bytes(host_board::bytes(ranks)) {}
  std::vector<std::byte> bytes;
};

class watchdogs : public testing::Test {
 protected:
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
  std::string folder_ = watchdog::temporary_folder();
};

TEST_F(watchdogs, leave_a_process_alone_that_comes_back_in_time) {
  flight_recorder r;
  host_board board;
  board.come(0, ::getpid());
  const watchdog dog(r, board, 20s, 0, folder_);
  for (int i = 0; i < 20; ++i) {
    r.begin(gather(1), 2);
    r.end();
  }
  std::this_thread::sleep_for(500ms);
}

TEST_F(watchdogs, end_a_process_that_waits_too_long) {
  const scratch::folder place;  // the process that ends has another one, which stays
  ASSERT_EQ(::setenv("RLCORE_WATCHDOG_TEST", place.path().c_str(), 0), 0);
  const std::string folder = std::getenv("RLCORE_WATCHDOG_TEST");
  if (folder != place.path()) std::filesystem::remove_all(place.path());
  EXPECT_EXIT(
      {
        flight_recorder r;
        host_board board;
        memory shared(3);
        board.place(shared.bytes.data(), 3, 1);
        board.come(11, ::getpid());
        host_board::line* lines = &board.self() - 1;  // the other ranks of the host
        lines[0].rank = 10;
        lines[2].rank = 12;
        lines[2].collectives = 2;
        lines[2].operation = static_cast<int>(collective::split);
        r.begin({}, 3);
        r.end();
        board.self().collectives = 2;
        board.self().operation = static_cast<int>(collective::all_gather);
        r.begin(gather(6), 3);
        const watchdog dog(r, board, 1s, 11, folder);
        std::this_thread::sleep_for(60s);
      },
      ExitedWithCode(exit_stuck),
      "rank 11: stopped in collective 2, all_gather .6 elements of 4 bytes, root 0. of 3 ranks, for [0-9.]+ s; on this "
      "host "
      "rank 10 has come to 0, rank 12 has come to 2, split; its last collectives are in .*rlcore_rank11_");
  EXPECT_FALSE(std::filesystem::is_empty(folder));
  ::unsetenv("RLCORE_WATCHDOG_TEST");
}

TEST_F(watchdogs, do_not_count_the_time_in_which_the_process_is_stopped) {
  EXPECT_EXIT(
      {
        flight_recorder r;
        host_board board;
        board.come(0, ::getpid());
        const pid_t self = ::getpid();
        r.begin(gather(6), 2);
        const watchdog dog(r, board, 2s, 0, "/nowhere");
        const pid_t child = ::fork();
        if (child == 0) {
          ::kill(self, SIGSTOP);
          ::sleep(3);
          ::kill(self, SIGCONT);
          ::_exit(0);
        }
        ::waitpid(child, nullptr, 0);
        const bool late = r.waiting() > 2'000'000'000;
        r.end();
        std::this_thread::sleep_for(300ms);
        std::_Exit(late ? 3 : 4);
      },
      ExitedWithCode(3), "");
}

TEST_F(watchdogs, notice_that_a_rank_has_vanished) {
  EXPECT_EXIT(
      {
        const pid_t child = ::fork();
        if (child == 0) ::_exit(0);
        ::waitpid(child, nullptr, 0);
        flight_recorder r;
        host_board board;
        memory shared(2);
        board.place(shared.bytes.data(), 2, 0);
        board.come(0, ::getpid());
        host_board::line* lines = &board.self();
        lines[1].rank = 1;
        lines[1].process = child;
        lines[1].state = host_board::working;
        r.begin(gather(6), 2);
        const watchdog dog(r, board, 60s, 0, "/nowhere");
        std::this_thread::sleep_for(60s);
      },
      ExitedWithCode(exit_stuck), "rank 0: rank 1 .process [0-9]+. is gone; stopped in collective 1, all_gather");
}

TEST_F(watchdogs, answer_sigterm_with_the_collective_that_waits) {
  EXPECT_EXIT(
      {
        flight_recorder r;
        host_board board;
        board.come(4, ::getpid());
        const watchdog dog(r, board, 60s, 4, folder_);
        r.begin(gather(6), 2);
        ::raise(SIGTERM);
      },
      ExitedWithCode(128 + SIGTERM), "rank 4: stopped in collective 1, all_gather .6 elements.* .SIGTERM.");
}

TEST_F(watchdogs, are_silent_where_another_rank_says_what_is_wrong) {
  EXPECT_EXIT(
      {
        flight_recorder r;
        host_board board;
        memory shared(2);
        board.place(shared.bytes.data(), 2, 0);
        board.come(0, ::getpid());
        (&board.self())[1].state = host_board::failing;
        const watchdog dog(r, board, 60s, 0, folder_);
        r.begin(gather(6), 2);
        ::raise(SIGTERM);
      },
      ExitedWithCode(128 + SIGTERM), "^$");
}

TEST_F(watchdogs, leave_a_handler_of_the_program_where_it_is) {
  ::signal(SIGTERM, SIG_IGN);
  {
    flight_recorder r;
    host_board board;
    const watchdog dog(r, board, 60s, 0, folder_);
    ::raise(SIGTERM);  // ignored
  }
  EXPECT_EQ(::signal(SIGTERM, SIG_DFL), SIG_IGN);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
