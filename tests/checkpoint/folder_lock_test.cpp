#include "rlcore/checkpoint/folder_lock.hpp"

#include <sys/wait.h>
#include <utime.h>

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::config_error;
using rlcore::checkpoint::folder_lock;
namespace fs = std::filesystem;

constexpr const char* way_out = "name another folder";

void expect_in_use(const fs::path& folder, const std::string& owner) {
  scratch::error_of<config_error>([&] { folder_lock(folder, way_out); },
                                  {folder.string() + ": another run works in this folder", owner, way_out});
}

TEST(folder_lock, one_holder_at_a_time) {
  const scratch::folder place;
  {
    const folder_lock first(place / "run", way_out);
    expect_in_use(place / "run", "process " + std::to_string(getpid()) + " on ");
    EXPECT_TRUE(fs::exists(place / "run" / "run.lock"));
  }
  const folder_lock second(place / "run", way_out);
}

TEST(folder_lock, leaves_nothing_of_a_run_that_wrote_nothing) {
  const scratch::folder place;
  {
    const folder_lock lock(place / "fresh" / "run", way_out);
  }
  EXPECT_FALSE(fs::exists(place / "fresh" / "run"));
  fs::create_directory(place / "used");
  scratch::write(place / "used" / "file", "x");
  {
    const folder_lock lock(place / "used", way_out);
  }
  EXPECT_TRUE(fs::exists(place / "used" / "file"));
  EXPECT_FALSE(fs::exists(place / "used" / "run.lock"));
}

TEST(folder_lock, of_a_killed_run_is_free) {
  const scratch::folder place;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const folder_lock lock(place.path(), way_out);
    scratch::write(place / ("file.tmp-" + std::to_string(getpid())), "half");
    [[maybe_unused]] const auto told = write(ready[1], "x", 1);
    for (;;) pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  expect_in_use(place.path(), "process " + std::to_string(child) + " on ");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(fs::exists(place / "run.lock"));
  const folder_lock mine(place.path(), way_out);
  EXPECT_FALSE(fs::exists(place / ("file.tmp-" + std::to_string(child))));
}

/// A file system whose locks stay on one host gives us the lock; the file says that another host goes on.
TEST(folder_lock, of_another_host_counts_for_a_minute_after_its_last_touch) {
  const scratch::folder place;
  const fs::path file = place / "run.lock";
  scratch::write(file, R"({"host": "elsewhere", "process": 7, "since": "2026-11-23 09:00:00"})");
  expect_in_use(place.path(), "process 7 on elsewhere since 2026-11-23 09:00:00");
  const std::time_t before = std::time(nullptr) - 90;
  const utimbuf old{before, before};
  ASSERT_EQ(utime(file.c_str(), &old), 0);
  const folder_lock mine(place.path(), way_out);
  EXPECT_EQ(scratch::read(file).find("elsewhere"), std::string::npos);
}

TEST(folder_lock, damaged_files_are_free_and_links_are_not_followed) {
  const scratch::folder place;
  scratch::write(place / "run.lock", "{\"host\": 3");
  {
    const folder_lock lock(place.path(), way_out);
  }
  scratch::write(place / "run.lock", "{\"host\": 3, \"process\": \"\"}");
  {
    const folder_lock lock(place.path(), way_out);
  }
  scratch::write(place / "victim", "content");
  fs::create_symlink(place / "victim", place / "run.lock");
  scratch::error_of<rlcore::file_error>([&] { folder_lock(place.path(), way_out); }, {"run.lock: cannot lock"});
  EXPECT_EQ(scratch::read(place / "victim"), "content");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
