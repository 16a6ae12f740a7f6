// cmake/setup.sh, which the targets of the Makefile begin with, where nothing can be installed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace fs = std::filesystem;

/// What the script prints for `goal` where only the commands that a build needs are found: no ninja, no apt-get.
std::string said(const std::string& goal, const scratch::folder& place, bool with_compiler = true) {
  fs::create_directories(place / "cmake");
  for (const char* file : {"cmake/setup.sh", "cmake/requirements.txt"})
    fs::copy_file(fs::path(RLCORE_SOURCE_DIR) / file, place / file, fs::copy_options::overwrite_existing);
  std::string commands = "cmake sed dirname mkdir id env ls rm";
  if (with_compiler) commands += " c++ g++";
  const std::string bin = (place / "bin").string(), out = (place / "out").string();
  const std::string line = "rm -rf " + bin + " && mkdir -p " + bin + " && for c in " + commands +
                           "; do ln -s \"$(command -v $c)\" " + bin + "/$c; done && PATH=" + bin + " CXX= /bin/sh " +
                           (place / "cmake/setup.sh").string() + " " + goal + " > " + out + " 2>&1";
  const int status = std::system(line.c_str());
  return std::to_string(status == 0 ? 0 : 1) + " " + scratch::read(out);
}

TEST(setup, of_make_train_says_nothing_of_what_it_does_not_need) {
  if (std::system("command -v cmake >/dev/null && command -v g++ >/dev/null && command -v c++ >/dev/null") != 0)
    GTEST_SKIP() << "no CMake or g++";
  const scratch::folder place;
  const std::string train = said("train", place);
  if (train.starts_with("1 ")) GTEST_SKIP() << "this machine lacks what the programs need: " << train;
  EXPECT_EQ(train, "0 ");
}

/// README's commands read .parquet, and docs/parallel.md's start ranks.
TEST(setup, of_make_programs_says_that_parquet_and_ranks_are_missing) {
  if (std::system("command -v cmake >/dev/null && command -v g++ >/dev/null && command -v c++ >/dev/null") != 0)
    GTEST_SKIP() << "no CMake or g++";
  const scratch::folder place;
  if (const std::string train = said("train", place); train.starts_with("1 ")) GTEST_SKIP() << train;
  const std::string programs = said("programs", place);
  EXPECT_TRUE(programs.starts_with("0 setup: going on without")) << programs;
  EXPECT_NE(programs.find(" openmpi-bin"), std::string::npos) << programs;
  EXPECT_NE(programs.find("make programs goes on without Parquet"), std::string::npos) << programs;
}

TEST(setup, names_what_is_missing) {
  const scratch::folder place;
  const std::string without = said("train", place, false);
  EXPECT_EQ(without.find("1 setup: this needs packages that are missing: sudo apt-get install g++"), 0u) << without;
}

}  // namespace
}  // namespace RLCORE_TEST_ID
