#include "rlcore/train/ranks/resources.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::train::available_memory;

constexpr std::size_t mebi = std::size_t{1} << 20;

void write(const scratch::folder& root, const std::string& name, const std::string& text) {
  std::filesystem::create_directories((root / name).parent_path());
  scratch::write(root / name, text);
}

TEST(available_memory, of_this_machine) {
  const auto bytes = available_memory();
  if (!bytes) GTEST_SKIP() << "the system does not tell";
  EXPECT_GT(*bytes, mebi);
}

TEST(available_memory, the_smaller_of_machine_and_control_group) {
  const scratch::folder root;
  EXPECT_FALSE(available_memory(root.path()).has_value());
  write(root, "proc/meminfo", "MemTotal:       8192 kB\nMemFree:        100 kB\nMemAvailable:   4096 kB\n");
  EXPECT_EQ(available_memory(root.path()), 4 * mebi);
  write(root, "sys/fs/cgroup/memory.current", "3145728\n");
  write(root, "sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(available_memory(root.path()), 4 * mebi);
  write(root, "sys/fs/cgroup/memory.max", "5242880\n");
  EXPECT_EQ(available_memory(root.path()), 2 * mebi);
  write(root, "sys/fs/cgroup/memory.stat", "anon 7\ninactive_file 1048576\n");  // files can be dropped
  EXPECT_EQ(available_memory(root.path()), 3 * mebi);
  write(root, "sys/fs/cgroup/memory.max", "1048576\n");
  EXPECT_EQ(available_memory(root.path()), 0u);
}

TEST(available_memory, first_version_of_control_groups) {
  const scratch::folder root;
  write(root, "proc/meminfo", "MemAvailable:   4096 kB\n");
  write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "2097152\n");
  write(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "1048576\n");
  write(root, "sys/fs/cgroup/memory/memory.stat", "inactive_file 9\ntotal_inactive_file 524288\n");
  EXPECT_EQ(available_memory(root.path()), mebi + mebi / 2);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
