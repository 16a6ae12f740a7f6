#include "layering/function_lengths.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace RLCORE_TEST_ID {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(function_lengths, no_function_is_above_60_lines) {
  const layering::strings exceptions = {
      "examples/minimal/dapo.cpp: run",  // the algorithm of a paper, read from top to bottom
      "examples/minimal/grpo.cpp: run",
      "examples/minimal/ppo.cpp: run",
      "include/rlcore/nn/model/causal_lm.hpp: lay_out",
      "include/rlcore/nn/model/decode.hpp: decode",
  };
  for (const std::string& line :
       layering::long_functions(RLCORE_SOURCE_DIR, {"include/rlcore", "src", "examples"}, exceptions))
    ADD_FAILURE() << line;
}

TEST(function_lengths, are_read_at_all) {
  std::ifstream in(RLCORE_SOURCE_DIR "/tests/layering/function_lengths.hpp");
  std::size_t count = 0;
  for (const auto& f : layering::functions_of(std::string(std::istreambuf_iterator<char>(in), {})))
    count += f.name == "long_functions" || f.name == "function_or_variable";
  EXPECT_EQ(count, 2U);
}

/// "NAME LINE+LINES" of the functions of a file.
std::vector<std::string> functions(const std::string& text) {
  std::vector<std::string> found;
  for (const auto& f : layering::functions_of(text))
    found.push_back(f.name + " " + std::to_string(f.line) + "+" + std::to_string(f.lines));
  return found;
}

TEST(function_lengths, from_the_template_head_to_the_closing_brace) {
  EXPECT_THAT(functions("/// Doc.\nint a() {\n  // c\n  return \"}\"[0];\n}\nint b() { return 1; }\n"),
              ElementsAre("a 2+4", "b 6+1"));
  EXPECT_THAT(functions("template <class T>\n  requires(sizeof(T) > 1)\nT a(T t,\n    T u) {\n  return t;\n}\n"),
              ElementsAre("a 1+6"));
  EXPECT_THAT(functions("template <class T>\n  requires requires(T t) { t(); } && b<T>\nvoid a(T) {\n}\n"),
              ElementsAre("a 1+4"));
  EXPECT_THAT(functions("auto a() -> decltype(b()) {\n  const auto c = [] {\n    return 1;\n  };\n  return c();\n}\n"),
              ElementsAre("a 1+6"));
}

TEST(function_lengths, of_members_and_operators) {
  EXPECT_THAT(functions("namespace x {\nclass a : b<int> {\n public:\n  a(int c)\n      : b<int>{c}, d_(c), e_{c} {\n"
                        "  }\n  int d() const noexcept { return d_; }\n private:\n  int d_ = 1, e_{2};\n};\n"
                        "inline int a::e() {\n}\n}\n"),
              ElementsAre("a 4+3", "d 7+1", "e 11+2"));
  EXPECT_THAT(functions("bool operator==(a, a) {\n}\nvoid operator()(a) {\n}\na& operator=(const a&) {\n}\n"
                        "template <>\nint a<int>(int) {\n}\nextern \"C\" {\nint f() {\n}\n}\n"),
              ElementsAre("operator== 1+2", "operator() 3+2", "operator= 5+2", "a<int> 7+3", "f 11+2"));
}

TEST(function_lengths, of_nothing_else) {
  EXPECT_THAT(functions("int a(int);\nint b = c(1), d{2};\ninline constexpr int e[] = {\n1,\n};\nenum class f {\n"
                        "  g,\n};\nstruct h;\nstruct i {\n  i() = default;\n  int j[2] = {\n};\n};\n"
                        "const auto k = f([] {\n});\ntemplate <class T>\nconcept l = requires(T t) {\n  t(1);\n};\n"
                        "#define M int m() { \\\n }\nusing n = int;\n"),
              IsEmpty());
}

/// A small tree of files in a temporary folder: the checker must be able to fail.
class long_function : public testing::Test {
 protected:
  void SetUp() override {
    top_ = std::filesystem::temp_directory_path() / ("rlcore_lengths_" + std::to_string(getpid()));
    std::filesystem::remove_all(top_);
    std::filesystem::create_directories(top_ / "src");
  }
  void TearDown() override { std::filesystem::remove_all(top_); }

  /// Writes a function of so many lines behind one of two.
  void write(std::size_t lines) const {
    std::ofstream(top_ / "src/file.cpp") << "int a() {\n}\nint b() {\n" << std::string(lines - 2, '\n') << "}\n";
  }
  layering::strings faults(const layering::strings& exceptions = {}) const {
    return layering::long_functions(top_, {"src"}, exceptions);
  }

 private:
  std::filesystem::path top_;
};

TEST_F(long_function, is_named) {
  write(60);
  EXPECT_THAT(faults(), IsEmpty());
  write(61);
  EXPECT_THAT(faults(), ElementsAre("src/file.cpp:3: b has 61 lines; 60 is the limit"));
}

TEST_F(long_function, may_be_an_exception_that_is_needed) {
  write(61);
  EXPECT_THAT(faults({"src/file.cpp: b"}), IsEmpty());
  write(60);
  EXPECT_THAT(faults({"src/file.cpp: b"}), ElementsAre("src/file.cpp: b needs no exception any more"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
