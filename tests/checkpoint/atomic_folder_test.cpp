#include "rlcore/checkpoint/atomic_file.hpp"

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/safetensors_writer.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::file_error;
using rlcore::checkpoint::atomic_folder;
using rlcore::checkpoint::write_file_atomically;

std::size_t entries(const std::filesystem::path& path) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path), {}));
}
void fill(const std::filesystem::path& target, const std::string& content) {
  atomic_folder folder(target);
  std::filesystem::create_directory(folder.path() / "inner");
  scratch::write(folder.path() / "inner" / "file", content);
  folder.commit();
}

TEST(atomic_folder, appears_only_by_commit) {
  const scratch::folder place;
  {
    const atomic_folder folder(place / "a" / "b");
    scratch::write(folder.path() / "file", "x");
    EXPECT_FALSE(std::filesystem::exists(place / "a" / "b"));
    EXPECT_EQ(folder.path().filename(), "b.tmp-" + std::to_string(getpid()));
  }
  EXPECT_TRUE(std::filesystem::is_empty(place / "a"));
  fill(place / "a" / "b", "one");
  EXPECT_EQ(scratch::read(place / "a" / "b" / "inner" / "file"), "one");
  fill(place / "a" / "b" / "", "two");  // a slash at the end, and a target that exists
  EXPECT_EQ(scratch::read(place / "a" / "b" / "inner" / "file"), "two");
  EXPECT_EQ(entries(place / "a"), 1u);
}

TEST(atomic_folder, keeps_the_old_one_on_an_exception) {
  const scratch::folder place;
  fill(place / "x", "old");
  EXPECT_THROW(
      {
        const atomic_folder folder(place / "x");
        scratch::write(folder.path() / "file", "half");
        throw 1;
      },
      int);
  EXPECT_EQ(scratch::read(place / "x" / "inner" / "file"), "old");
  EXPECT_EQ(entries(place.path()), 1u);
  scratch::write(place / "plain", "");
  scratch::error_of<file_error>([&] { atomic_folder folder(place / "plain" / "x"); }, {"plain", "cannot create"});
}

TEST(atomic_folder, removes_what_a_killed_writer_left) {
  const scratch::folder place;
  const pid_t child = fork();
  if (child == 0) {
    atomic_folder folder(place / "x");
    scratch::write(folder.path() / "file", "half");
    _exit(0);  // as if killed: no destructor runs
  }
  waitpid(child, nullptr, 0);
  ASSERT_TRUE(std::filesystem::exists(place / ("x.tmp-" + std::to_string(child))));
  std::filesystem::create_directory(place / ("x.tmp-" + std::to_string(getppid())));  // alive: not ours to remove
  fill(place / "x", "new");
  EXPECT_EQ(entries(place.path()), 2u);
}

TEST(atomic_file, replaces_as_a_whole) {
  const scratch::folder place;
  write_file_atomically(place / "t", "1");
  write_file_atomically(place / "t", std::string("2\0", 2));
  EXPECT_EQ(scratch::read(place / "t"), std::string("2\0", 2));
  EXPECT_EQ(entries(place.path()), 1u);
  std::filesystem::create_directory(place / "folder");
  scratch::error_of<file_error>([&] { write_file_atomically(place / "folder", "1"); }, {"folder", "Is a directory"});
  scratch::error_of<file_error>([&] { write_file_atomically(place / "no" / "t", "1"); }, {"No such file"});
  EXPECT_EQ(entries(place.path()), 2u);
}

// Saves 4 MB where they do not fit over an existing checkpoint; returns the complaint.
std::string save_too_much(const std::filesystem::path& target) {
  const std::vector<float> values(1 << 20);
  const rlcore::checkpoint::tensor_source tensor{"x", {1 << 20}, values};
  return scratch::error_of<file_error>(
      [&] {
        atomic_folder folder(target);
        rlcore::checkpoint::write_safetensors(folder.path() / "model.safetensors", {&tensor, 1});
        folder.commit();
      },
      {"model.safetensors", "cannot write"});
}

TEST(atomic_folder, a_file_size_limit_leaves_the_old_checkpoint) {
  const scratch::folder place;
  fill(place / "x", "old");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1 << 16, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string what = save_too_much(place / "x");
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(what.find("File too large"), std::string::npos) << what;
  EXPECT_EQ(scratch::read(place / "x" / "inner" / "file"), "old");
  EXPECT_EQ(entries(place.path()), 1u);
}

TEST(atomic_folder, a_full_disk_leaves_the_old_checkpoint) {
  const scratch::folder place;
  if (mount("tmpfs", place.path().c_str(), "tmpfs", 0, "size=1m") != 0) GTEST_SKIP() << "needs the right to mount";
  fill(place / "x", "old");
  const std::string what = save_too_much(place / "x");
  EXPECT_NE(what.find("No space left"), std::string::npos) << what;
  EXPECT_EQ(scratch::read(place / "x" / "inner" / "file"), "old");
  EXPECT_EQ(entries(place.path()), 1u);
  umount2(place.path().c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
