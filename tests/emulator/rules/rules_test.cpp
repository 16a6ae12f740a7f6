// The table of the vendor's rules: whole, readable, the same as the documentation's, and what the emulator refuses by
// it.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/device/npu/abi/calls.hpp"
#include "rlcore/emulator/rules/rules.hpp"

namespace npu_test::RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using ascend::data_type;
namespace rules = ascend::rules;

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> found;
  std::string word;
  for (const char c : text)
    if (c == ' ')
      found.push_back(word), word.clear();
    else
      word += c;
  if (!word.empty()) found.push_back(word);
  return found;
}

/// How many arguments an operator takes.
template <class... A>
constexpr std::size_t arity(const ascend::operator_call<A...> ascend::operator_calls::*) {
  return sizeof...(A);
}
template <class... A>
constexpr std::size_t arity(ascend::operator_call<A...> ascend::operator_calls::*) {
  return sizeof...(A);
}

TEST(operator_rules, every_operator_has_its_arguments_and_rows_for_every_version) {
  const auto see = [](std::string_view op, std::size_t arguments) {
    const auto all = rules::signatures();
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& s) { return s.op == op; });
    ASSERT_NE(found, all.end()) << op;
    EXPECT_EQ(words(found->names).size(), arguments) << op;
    for (const std::string_view version : rules::versions)
      EXPECT_TRUE(std::any_of(rules::all().begin(), rules::all().end(),
                              [&](const rules::rule& r) { return r.op == op && r.holds_in(version); }))
          << op << " in " << version;
  };
#define RLCORE_NPU_OPERATOR(name, need, ...) see(#name, arity(&ascend::operator_calls::name));
#include "rlcore/device/npu/abi/operators.inc"
#undef RLCORE_NPU_OPERATOR
}

TEST(operator_rules, rows_say_what_can_be_read) {
  const std::set<std::string> types{"float32", "float16", "bfloat16", "float64",   "int8",
                                    "uint8",   "int16",   "uint16",   "int32",     "uint32",
                                    "int64",   "uint64",  "bool",     "complex64", "complex128"};
  for (const rules::rule& r : rules::all()) {
    SCOPED_TRACE(std::string(r.op) + " " + std::string(r.subject));
    for (const std::string& v : words(r.versions)) EXPECT_THAT(rules::versions, testing::Contains(v.substr(0, 3))) << v;
    EXPECT_FALSE(r.source.empty());
    EXPECT_THAT(std::string(r.source), testing::Not(testing::HasSubstr("/work")));
    EXPECT_THAT(r.code, testing::AnyOf(161001, 161002, 561002, 561003, 561103));
    if (r.kind == rules::kind::types) {
      for (const std::string& t : words(r.value)) EXPECT_TRUE(types.contains(t)) << t;
    }
    if (r.kind == rules::kind::rank) {
      ASSERT_EQ(r.value.size(), 3u);
      EXPECT_TRUE(std::isdigit(r.value[0]) && std::isdigit(r.value[2]) && r.value[0] <= r.value[2]);
    }
    // Its subjects are arguments of the operator.
    rules::checker one(r.op, r.versions.substr(0, 3));
    std::string names;
    for (const char c : r.subject) names += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : ' ';
    for (const std::string& name : words(names)) {
      if (name.empty() || name == "promote") continue;
      EXPECT_THAT(one.names(), testing::Contains(name));
    }
  }
}

/// The lines from the first operator on.
std::vector<std::string> sections(std::istream&& page) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(page, line);)
    if (!lines.empty() || line.starts_with("## ")) lines.push_back(line);
  return lines;
}

/// Whether a row of the page is a note: what the vendor's sources say beyond the rules.
bool is_note(std::string_view row) {
  return std::ranges::any_of(std::array{"cast", "empty", "exists", "if", "inside", "limit", "null", "order", "rank",
                                        "same", "shape", "strides", "types"},
                             [&](const std::string& subject) { return row.starts_with("| " + subject + ": "); });
}

TEST(operator_rules, the_page_has_every_rule_and_notes_beside_them) {
  std::vector<std::string> page = sections(std::ifstream(RLCORE_SOURCE_DIR "/docs/npu_operators.md"));
  EXPECT_GT(std::erase_if(page, is_note), 500u);
  const auto last = std::ranges::find(page, "## every operator");
  EXPECT_EQ(page.end() - last, 4) << "has notes alone";
  page.erase(last - 1, page.end());
  EXPECT_THAT(page, testing::ElementsAreArray(sections(std::istringstream(rules::page()))))
      << "npu_doctor --rules prints the rows that the page should have";
}

rules::argument of(data_type type, std::vector<std::int64_t> shape = {2, 3}) { return {false, type, shape}; }
int code(std::string_view op, int cann, std::vector<rules::argument> call) {
  rules::book book(cann);
  const auto no = book(op, call);
  return no ? no->code : 0;
}

TEST(operator_rules, types_convert_as_the_vendor_converts_them) {
  EXPECT_TRUE(rules::castable(data_type::float32, data_type::bfloat16));
  EXPECT_TRUE(rules::castable(data_type::int64, data_type::float16));
  EXPECT_FALSE(rules::castable(data_type::float32, data_type::int64));
  EXPECT_FALSE(rules::castable(data_type::int32, data_type::boolean));
  EXPECT_EQ(rules::common_type(data_type::float16, data_type::bfloat16), data_type::float32);
  EXPECT_EQ(rules::common_type(data_type::int8, data_type::uint8), data_type::int16);
  EXPECT_EQ(rules::common_type(data_type::uint16, data_type::int32), data_type::undefined);
  EXPECT_EQ(rules::common_type(data_type::uint16, data_type::uint16), data_type::uint16);
  EXPECT_EQ(rules::common_type(data_type::boolean, data_type::int8), data_type::int8);
}

TEST(operator_rules, calls_are_held_against_their_version) {
  const auto f = of(data_type::float32), i = of(data_type::int32), b = of(data_type::bfloat16),
             u = of(data_type::uint16);
  const rules::argument null{true}, none, one{false, data_type::float32}, whole{false, data_type::int64};
  EXPECT_EQ(code("aclnnAdd", 80300, {f, f, one, f}), 0);
  EXPECT_EQ(code("aclnnAdd", 80300, {f, null, one, f}), 161001);
  EXPECT_EQ(code("aclnnAdd", 80300, {i, i, one, i}), 161002) << "an alpha of float for integers";
  EXPECT_EQ(code("aclnnAdd", 80300, {i, i, whole, i}), 0);
  EXPECT_EQ(code("aclnnAdd", 80300, {f, f, one, i}), 161002) << "floats into integers";
  EXPECT_EQ(code("aclnnAdd", 80300, {i, u, whole, i}), 161002);
  EXPECT_EQ(code("aclnnMatmul", 90100, {b, b, f, none}), 0);
  EXPECT_EQ(code("aclnnMatmul", 90100, {b, i, f, none}), 161002);
  EXPECT_EQ(code("aclnnMatmul", 90100, {of(data_type::float32, {1, 1, 1, 1, 1, 2, 3}), f, f, none}), 161002) << "rank";
  const auto x = of(data_type::float32, {7, 2, 8});
  EXPECT_EQ(code("aclnnRotaryPositionEmbedding", 80300, {x, x, x, none, x}), 561002);
  EXPECT_EQ(code("aclnnRotaryPositionEmbedding", 80500, {x, x, x, none, x}), 0);
  EXPECT_EQ(code("aclnnInplaceFillScalar", 80500, {u, whole}), 161002);
  EXPECT_EQ(code("aclnnInplaceFillScalar", 90100, {u, whole}), 0);
  EXPECT_EQ(code("aclnnOfNobody", 80300, {f}), 0);
}

}  // namespace
}  // namespace npu_test::RLCORE_TEST_ID
