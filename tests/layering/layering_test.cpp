#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "layering/layers.hpp"

namespace RLCORE_TEST_ID {
namespace {

using layering::violations;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(layering, the_library_keeps_the_order_of_its_folders) {
  for (const std::string& line : violations(RLCORE_SOURCE_DIR "/include/rlcore"))
    ADD_FAILURE() << "include/rlcore/" << line;
}

TEST(layering, no_test_program_or_benchmark_is_above_500_lines) {
  for (const char* folder : {"tests", "examples", "bench"}) {
    for (const auto& entry :
         layering::fs::recursive_directory_iterator(RLCORE_SOURCE_DIR + ("/" + std::string(folder)))) {
      const layering::fs::path extension = entry.path().extension();
      if (extension != ".cpp" && extension != ".hpp") continue;
      EXPECT_LE(layering::read_header(entry.path()).lines, 500u) << entry.path();
    }
  }
}

/// The namespaces that a header may open first: its folders, or what stands for them. Empty for the mathematics and for
/// devices, whose names stand in rlcore itself.
std::set<std::string> namespaces_of(const layering::fs::path& header) {
  const std::string folder = *header.begin();
  static const std::map<std::string, std::string> other = {
      {"config", "train"}, {"telemetry", "train"}, {"planning", "train"}, {"emulator", "ascend"}};
  static const std::set<std::string> without = {"core", "tensor", "simd", "exec", "objective", "device"};
  const std::string text = header.string();
  if (text.starts_with("device/npu/")) return {"ascend"};
  if (text.starts_with("device/cuda/") || text.starts_with("emulator/cuda/") || text.ends_with("/emulated_cuda.hpp"))
    return {"nvidia"};
  if (without.contains(folder) || !header.has_parent_path()) return {};
  if (const auto found = other.find(folder); found != other.end()) return {found->second};
  std::set<std::string> folders;
  for (const auto& part : header.parent_path()) folders.insert(part);
  return folders;
}

TEST(layering, namespaces_are_folders) {
  const std::regex opened("\nnamespace (\\w+)[^\n]*\\{\n(?!(?:class|struct) \\w+;\n\\})");
  const layering::fs::path top = RLCORE_SOURCE_DIR "/include/rlcore";
  std::size_t headers = 0;
  for (const auto& entry : layering::fs::recursive_directory_iterator(top)) {
    const layering::fs::path header = layering::fs::relative(entry.path(), top);
    const std::set<std::string> expected = namespaces_of(header);
    if (header.extension() != ".hpp" || expected.empty()) continue;
    std::ifstream file(entry.path());
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    std::smatch first;
    const std::string body = text.substr(std::min(text.find("\nRLCORE_BEGIN"), text.size()));
    if (!std::regex_search(body, first, opened)) continue;
    EXPECT_TRUE(expected.contains(first[1])) << header << " opens namespace " << first[1];
    ++headers;
  }
  EXPECT_GT(headers, 300u);
}

/// A small tree of headers in a temporary folder: the checker must be able to fail.
class bad_tree : public testing::Test {
 protected:
  void SetUp() override {
    top_ = layering::fs::temp_directory_path() / ("rlcore_layering_" + std::to_string(getpid()));
    layering::fs::remove_all(top_);
    write("core/error.hpp", "#include <string>\n");
    write("tensor/view.hpp", "#pragma once\n#include <span>\n#include \"rlcore/core/error.hpp\"\n");
    write("tensor/eigen.hpp", "#include <Eigen/Core>\n#include \"rlcore/tensor/view.hpp\"\n");
    write("objective/loss.hpp", "#include \"rlcore/tensor/view.hpp\"\n");
    write("train/loop.hpp", "#include <fmt/core.h>\n#include <unistd.h>\n#include \"rlcore/objective/loss.hpp\"\n");
  }
  void TearDown() override { layering::fs::remove_all(top_); }

  void write(const std::string& file, const std::string& text) const {
    layering::fs::create_directories((top_ / file).parent_path());
    std::ofstream(top_ / file) << text;
  }
  layering::strings faults() const { return violations(top_); }

 private:
  layering::fs::path top_;
};

TEST_F(bad_tree, is_good_to_begin_with) { EXPECT_THAT(faults(), IsEmpty()); }

TEST_F(bad_tree, edge_to_a_later_layer) {
  write("tensor/view.hpp", "\n  #  include \"rlcore/objective/sum.hpp\"\n");
  write("objective/sum.hpp", "");
  EXPECT_THAT(faults(), ElementsAre("tensor/view.hpp:2: rlcore/objective/sum.hpp lies in a later layer"));
}

TEST_F(bad_tree, third_party_where_only_the_standard_library_is_allowed) {
  write("objective/loss.hpp", "#include <nlohmann/json.hpp>\n");
  EXPECT_THAT(faults(), ElementsAre("objective/loss.hpp:1: nlohmann/json.hpp is third party, not allowed here"));
  write("objective/loss.hpp", "#include <Eigen/Core>\n");
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("Eigen/Core is third party")));
}

TEST_F(bad_tree, unknown_and_system_headers) {
  write("data/reader.hpp", "#include <boost/config.hpp>\n");
  write("objective/loss.hpp", "#include <unistd.h>\n#include <immintrin.h>\n");
  EXPECT_THAT(faults(),
              ElementsAre(HasSubstr("boost/config.hpp is not on the list"), HasSubstr("unistd.h is of the operating"),
                          HasSubstr("immintrin.h belongs into simd or device")));
}

TEST_F(bad_tree, adapters_are_leaves) {
  write("objective/loss.hpp", "#include \"rlcore/tensor/eigen.hpp\"\n");
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("is an adapter")));
}

TEST_F(bad_tree, umbrella_takes_only_what_needs_no_third_party) {
  write("rlcore.hpp", "#include \"rlcore/objective/loss.hpp\"\n");
  EXPECT_THAT(faults(), IsEmpty());
  write("rlcore.hpp", "#include \"rlcore/train/loop.hpp\"\n");
  EXPECT_THAT(faults(), ElementsAre("rlcore.hpp:1: rlcore/train/loop.hpp lies in a later layer"));
  write("rlcore.hpp", "");
  write("train/loop.hpp", "#include \"rlcore/rlcore.hpp\"\n");
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("is the umbrella header")));
}

TEST_F(bad_tree, spelling_and_existence) {
  write("objective/loss.hpp", "#include \"view.hpp\"\n#include \"rlcore/tensor/veiw.hpp\"\n");
  EXPECT_THAT(faults(),
              ElementsAre(HasSubstr("view.hpp is not written from rlcore/ on"), HasSubstr("veiw.hpp does not exist")));
}

TEST_F(bad_tree, folder_that_is_no_layer) {
  write("util/misc.hpp", "");
  EXPECT_THAT(faults(), ElementsAre("util/misc.hpp: lies in a folder that is not a layer"));
}

TEST_F(bad_tree, header_that_grew_too_long) {
  write("core/error.hpp", std::string(401, '\n'));
  EXPECT_THAT(faults(), ElementsAre("core/error.hpp: has 401 lines; 400 is the limit"));
  write("core/error.hpp", std::string(400, '\n'));
  EXPECT_THAT(faults(), IsEmpty());
  std::string table;
  for (int i = 0; i < 401; ++i) table += "RLCORE_ROW(a,\n           b)\n";
  write("core/table.inc", table + std::string(400, '\n'));
  EXPECT_THAT(faults(), IsEmpty());
  write("core/table.inc", table + std::string(401, '\n'));
  EXPECT_THAT(faults(), ElementsAre("core/table.inc: has 401 lines; 400 is the limit"));
}

TEST_F(bad_tree, folder_that_nobody_overlooks) {
  for (int i = 0; i < 40; ++i) write("verify/rule_" + std::to_string(i) + ".hpp", "");
  EXPECT_THAT(faults(), IsEmpty());
  write("verify/rule_40.hpp", "");
  EXPECT_THAT(faults(), ElementsAre("verify: has 41 files; 40 is the limit"));
}

TEST_F(bad_tree, circle) {
  write("core/error.hpp", "#include \"rlcore/core/dtype.hpp\"\n");
  write("core/dtype.hpp", "#include \"rlcore/core/error.hpp\"\n");
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("includes itself: core/dtype.hpp -> core/error.hpp -> core/dtype.hpp")));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
