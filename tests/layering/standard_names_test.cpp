#include "layering/standard_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(standard_names, come_from_headers_that_are_included) {
  for (const std::string& line : layering::undeclared_names(RLCORE_SOURCE_DIR "/include/rlcore"))
    ADD_FAILURE() << "include/rlcore/" << line;
}

TEST(standard_names, comments_and_quotes_are_no_code) {
  EXPECT_EQ(layering::code_of("a // std::b\nc /* std::d */ e \"std::f\\\"\" 'g' 1'000 R\"x(std::h)\")x\" i"),
            "a \nc  e   1'000  i");
}

/// A small tree of headers in a temporary folder: the checker must be able to fail.
class bad_names : public testing::Test {
 protected:
  void SetUp() override {
    top_ = std::filesystem::temp_directory_path() / ("rlcore_names_" + std::to_string(getpid()));
    std::filesystem::remove_all(top_);
    write("core/text.hpp", "#include <string>\nstd::string a;\n");
  }
  void TearDown() override { std::filesystem::remove_all(top_); }

  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((top_ / file).parent_path());
    std::ofstream(top_ / file) << text;
  }
  layering::strings faults() const { return layering::undeclared_names(top_); }

 private:
  std::filesystem::path top_;
};

TEST_F(bad_names, is_good_to_begin_with) { EXPECT_THAT(faults(), IsEmpty()); }

TEST_F(bad_names, missing_header) {
  write("core/text.hpp", "#include <string>\nstd::vector<int> a;\n");
  EXPECT_THAT(faults(), ElementsAre("core/text.hpp: std::vector needs <vector>"));
}

TEST_F(bad_names, header_of_another_header_counts) {
  write("core/more.hpp", "#include \"rlcore/core/text.hpp\"\nstd::string b;\n");
  EXPECT_THAT(faults(), IsEmpty());
}

TEST_F(bad_names, unknown_name) {
  write("core/text.hpp", "std::no_such_name a;\n");
  EXPECT_THAT(faults(),
              ElementsAre("core/text.hpp: std::no_such_name is not in the table of tests/layering/standard_names.hpp: "
                          "add it"));
}

TEST_F(bad_names, third_parties) {
  write("data/row.hpp", "nlohmann::json a;\n");
  write("trainer/line.hpp", "#include <fmt/format.h>\nint a = fmt::b(nlohmann::c);\n");
  EXPECT_THAT(faults(), ElementsAre("data/row.hpp: nlohmann:: needs <nlohmann/json.hpp>",
                                    "trainer/line.hpp: nlohmann:: needs <nlohmann/json.hpp>"));
}

}  // namespace
