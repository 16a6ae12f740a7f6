// docs/pitfalls.md names a test or a compile-fail case for every pitfall that a type does not rule out: they exist.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace RLCORE_TEST_ID {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(pitfalls, are_covered_by_tests_that_exist) {
  const fs::path root = RLCORE_SOURCE_DIR;
  std::set<std::string> tests;
  const std::regex declared("(?:TEST|TEST_F|TYPED_TEST|TEST_P)\\(\\s*([A-Za-z_0-9]+),\\s*([A-Za-z_0-9]+)\\)");
  for (const auto& entry : fs::recursive_directory_iterator(root / "tests")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string text = read(entry.path());
    for (std::sregex_iterator it(text.begin(), text.end(), declared), end; it != end; ++it)
      tests.insert((*it)[1].str() + "." + (*it)[2].str());
  }
  const std::string document = read(root / "docs" / "pitfalls.md");
  ASSERT_FALSE(document.empty());
  int named = 0;
  const std::regex test("`([a-z_0-9]+\\.[a-z_0-9A-Z]+)`");
  for (std::sregex_iterator it(document.begin(), document.end(), test), end; it != end; ++it, ++named)
    EXPECT_TRUE(tests.contains((*it)[1])) << (*it)[1] << " is no test";
  const std::regex refused("`compile_fail/([a-z_0-9]+)`");
  for (std::sregex_iterator it(document.begin(), document.end(), refused), end; it != end; ++it, ++named)
    EXPECT_TRUE(fs::exists(root / "tests" / "compile_fail" / ((*it)[1].str() + ".cpp"))) << (*it)[1];
  EXPECT_GT(named, 40);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
