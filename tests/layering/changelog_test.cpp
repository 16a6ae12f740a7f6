// CHANGELOG.md begins with what is unreleased, and the version that programs see is the newest one with a date.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "rlcore/core/version.hpp"

namespace RLCORE_TEST_ID {
namespace {

TEST(changelog, has_the_version_of_the_library) {
  std::ifstream in(RLCORE_SOURCE_DIR "/CHANGELOG.md");
  std::vector<std::string> sections;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("## ")) sections.push_back(line);
  ASSERT_GE(sections.size(), 2u);
  EXPECT_EQ(sections[0], "## [Unreleased]");
  EXPECT_THAT(sections[1], testing::MatchesRegex("## \\[" + std::string(RLCORE_VERSION_STRING) + "\\] - [0-9-]{10}"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
