// rlcore.hpp leaves nothing out of the folders that need no third party.
#include "rlcore/rlcore.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace RLCORE_TEST_ID {
namespace {

namespace fs = std::filesystem;

void reach(const fs::path& include, const std::string& header, std::set<std::string>& seen) {
  if (!seen.insert(header).second) return;
  std::ifstream in(include / header);
  const std::string open = "#include \"";
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(open))
      reach(include, line.substr(open.size(), line.find('"', open.size()) - open.size()), seen);
}

TEST(umbrella, reaches_every_header) {
  const fs::path include = fs::path(RLCORE_SOURCE_DIR) / "include";
  std::set<std::string> seen;
  reach(include, "rlcore/rlcore.hpp", seen);
  for (const char* folder : {"core", "tensor", "simd", "exec", "objective"})
    for (const auto& entry : fs::recursive_directory_iterator(include / "rlcore" / folder)) {
      const std::string name = fs::relative(entry.path(), include).generic_string();
      if (entry.path().extension() != ".hpp" || name.ends_with("/eigen.hpp") || name.ends_with("/xtensor.hpp"))
        continue;
      EXPECT_TRUE(seen.contains(name)) << name << " is not included by rlcore/rlcore.hpp";
    }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
