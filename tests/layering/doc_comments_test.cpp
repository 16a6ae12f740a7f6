#include "layering/doc_comments.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace RLCORE_TEST_ID {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(doc_comments, are_on_every_public_function_and_type) {
  const layering::comment_count count = layering::count_comments(RLCORE_SOURCE_DIR "/include/rlcore", {""});
  EXPECT_GT(count.documented, 2400U);
  for (const std::string& line : count.bare)
    ADD_FAILURE() << "include/rlcore/" << line << ": has no doc comment: what it does, its shapes, what it throws";
}

std::vector<std::string> bare(const std::string& header) {
  const std::vector<layering::lexeme> words = layering::lexemes_of(header);
  layering::requirements concepts;
  layering::collect_requirements(words, concepts);
  return layering::declarations(words, concepts).bare();
}

TEST(doc_comments, functions_and_types_need_one) {
  EXPECT_THAT(bare("#define A int b() {\\\n}\nRLCORE_BEGIN\n/// Doc.\nint a();\nint b(); // int c();\nRLCORE_END\n"),
              ElementsAre("6: b"));
  EXPECT_THAT(bare("namespace x {\nint a(int b) { return b; }\nstruct c {};\nenum class d { e };\n}\n"),
              ElementsAre("2: a", "3: c", "4: d"));
  EXPECT_THAT(bare("using a = int;\nusing b = int;  ///< doc\nusing std::swap;\n"), ElementsAre("1: a"));
  EXPECT_THAT(bare("template <class T>\nconcept a = requires(T t) { t.b(); };\n"), ElementsAre("1: a"));
  EXPECT_THAT(bare("template <class T>\nrequires requires(T t) { t(); } || (sizeof(T) > 1)\nT a(T t) { return t; }\n"),
              ElementsAre("1: a"));
  EXPECT_THAT(bare("bool operator==(int a, char b);\nRLCORE_FN auto c() -> decltype(1);\n"),
              ElementsAre("1: operator==", "2: c"));
  EXPECT_THAT(bare("/// Doc.\n\nint a();\n// no doc\nint b();\n"), ElementsAre("5: b"));
}

TEST(doc_comments, members_with_parameters_need_one) {
  EXPECT_THAT(bare("/// Doc.\nclass a {\n public:\n  a(int x) : x_{x}, y_(x) {}\n  int b() const { return x_; }\n"
                   "  int c(int d);\n  struct e { int f(int); };\n private:\n  int g(int);\n  int x_, y_;\n};\n"),
              ElementsAre("4: a::a", "6: a::c", "7: e", "7: e::f"));
  EXPECT_THAT(bare("/// Doc.\nstruct a {\n  void operator()(int);\n  int operator[](int) const;\n};\n"),
              ElementsAre("3: a::operator()", "4: a::operator[]"));
}

TEST(doc_comments, what_the_comment_of_a_type_covers) {
  EXPECT_THAT(bare("/// Doc.\nstruct a {\n  static constexpr int reads = f(1);\n  double low = 0.2, high{1};\n"
                   "  void check_settings(int) const {}\n  a(const a&) = default;\n"
                   "  friend bool operator<(a, a) { return true; }\n  template <class V>\n"
                   "  auto operator()(const token<V>& t) const noexcept { return t; }\n};\n"),
              IsEmpty());
  EXPECT_THAT(bare("/// Doc.\nstruct a {\n  RLCORE_FN term<V> operator()(const V& t) const { return {t}; }\n};\n"),
              IsEmpty());
}

TEST(doc_comments, what_a_concept_or_an_overridden_function_covers) {
  const std::string concepts =
      "/// Doc.\ntemplate <class D>\nconcept a = requires(D& d) { d.f(1); };\n"
      "/// Doc.\ntemplate <class D>\nconcept b = a<D> && requires(D& d) { { d.g(1) } -> c<int>; };\n";
  const std::string type = "/// Doc.\nstruct e {\n  void f(int);\n  int g(int);\n  int h(int);\n};\n";
  EXPECT_THAT(bare(concepts + type + "static_assert(b<e> && sizeof(e) > 1);\n"), ElementsAre("11: e::h"));
  EXPECT_THAT(bare(concepts + type + "static_assert(a<e>);\n"), ElementsAre("10: e::g", "11: e::h"));
  EXPECT_THAT(bare(concepts + type), ElementsAre("9: e::f", "10: e::g", "11: e::h"));
  EXPECT_THAT(
      bare("/// Doc.\nstruct a : b {\n  int c(int) const override { return 1; }\n  virtual int d(int) = 0;\n};\n"),
      ElementsAre("4: a::d"));
}

TEST(doc_comments, what_the_comment_of_an_overload_covers) {
  EXPECT_THAT(bare("/// Doc.\nint a(int);\ninline int a(char c) { return c; }\ntemplate <class T>\nint a(T);\n"),
              IsEmpty());
  EXPECT_THAT(bare("/// Doc.\nint a(int);\nint b(int);\nint a(char);\n"), ElementsAre("3: b", "4: a"));
  EXPECT_THAT(bare("int a(int);\nint a(char);\n/// Doc.\nint a(long);\n"), ElementsAre("1: a", "2: a"));
  EXPECT_THAT(bare("namespace x {\n/// Doc.\nint a(int);\n}\nint a(char);\n"), ElementsAre("5: a"));
}

TEST(doc_comments, what_needs_none) {
  EXPECT_THAT(bare("namespace detail {\nint a();\n}\nnamespace b::detail {\nstruct c {};\n}\n"), IsEmpty());
  EXPECT_THAT(bare("/// Doc.\nstruct a {\n  explicit operator bool() const { return b; }\n};\nusing b = int;\n"),
              ElementsAre("5: b"));
  EXPECT_THAT(bare("struct a;\ninline constexpr int b = c(1), d{2};\nstatic_assert(e(1));\n"), IsEmpty());
  EXPECT_THAT(bare("/// Doc.\nstruct a {\n  void b(int);  ///< doc\n  a(a&& other) : x_(other.x_) {}\n"
                   "  a& operator=(a&&) { return *this; }\n};\ninline void a::b(int) {}\n"),
              IsEmpty());
  EXPECT_THAT(bare("/// Doc.\nstruct a {\n  int (*b)(int) = nullptr;\n  int c(int (*)(int));\n};\n"),
              ElementsAre("4: a::c"));
  EXPECT_THAT(bare("template <>\nstruct a<int> { int b(int); };\ntemplate <class T>\na(T) -> a<T>;\n"), IsEmpty());
}

}  // namespace
}  // namespace RLCORE_TEST_ID
