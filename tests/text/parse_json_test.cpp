// The limit on nesting, and that text which only looks deep is not refused.
#include "rlcore/text/parse_json.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace RLCORE_TEST_ID {
namespace {

namespace text = rlcore::text;
using rlcore::format_error;

std::string lists(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

std::string refusal(std::string_view json) {
  try {
    (void)text::parse_json<format_error>(json, "a.json");
  } catch (const format_error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(parse_json, nesting_is_limited) {
  EXPECT_EQ(refusal(lists(1000)), "accepted");
  EXPECT_EQ(refusal(lists(1001)), "a.json: JSON nested deeper than 1000 (at byte 1001 of 2002)");
  EXPECT_EQ(refusal(std::string(100000, '[')), "a.json: JSON nested deeper than 1000 (at byte 1001 of 100000)");
  std::string maps;
  for (int i = 0; i < 20000; ++i) maps += "{\"a\":";
  EXPECT_EQ(refusal(maps), "a.json: JSON nested deeper than 1000 (at byte 5001 of 100000)");
  EXPECT_TRUE(text::try_parse_json(lists(1001)).is_discarded());
  EXPECT_TRUE(text::try_parse_json("[1").is_discarded());
  EXPECT_EQ(text::try_parse_json("[1]")[0], 1);
}

/// nlohmann's parser reads nothing behind a zero byte.
TEST(parse_json, a_zero_byte_is_no_end) {
  using namespace std::string_literals;
  EXPECT_EQ(refusal("[1]\0"s), "a.json: not valid JSON (at byte 4 of 4)");
  EXPECT_EQ(refusal("[1]\0[2]"s), "a.json: not valid JSON (at byte 4 of 7)");
  EXPECT_EQ(refusal("\0"s), "a.json: not valid JSON (at byte 1 of 1)");
  EXPECT_EQ(refusal("[\"\\u0000\"]"), "accepted");
  EXPECT_TRUE(text::try_parse_json("[1]\0"s).is_discarded());
}

TEST(parse_json, brackets_in_strings_and_beside_each_other_do_not_nest) {
  EXPECT_EQ(refusal("[\"" + std::string(5000, '[') + "\\\"" + std::string(5000, '{') + "\"]"), "accepted");
  EXPECT_EQ(refusal("[\"\\\\\"," + lists(999) + "]"), "accepted");
  std::string beside = "[0";
  for (int i = 0; i < 5000; ++i) beside += ",[],{}";
  EXPECT_EQ(refusal(beside + "]"), "accepted");
  EXPECT_EQ(refusal("[\"" + std::string(5000, '[')), "a.json: not valid JSON (at byte 5003 of 5002)");
  EXPECT_EQ(refusal("[\"\\"), "a.json: not valid JSON (at byte 4 of 3)");
  EXPECT_EQ(refusal("1e999"), "a.json: not valid JSON (a number is out of range)");
}

TEST(parse_json, cbor_has_the_same_limit) {
  const auto nested = [](const std::string& head, std::size_t depth) {
    std::string all;
    for (std::size_t i = 0; i < depth; ++i) all += head;
    return all + '\x01';
  };
  const std::string list = "\x81", map = "\xa1\x61k", endless_list = "\x9f", second = "\x82\x63___";
  for (const std::string& head : {list, map, endless_list, second}) {
    EXPECT_FALSE(text::cbor_nests_deeper(nested(head, 1000), 1000)) << head;
    EXPECT_TRUE(text::cbor_nests_deeper(nested(head, 1001), 1000)) << head;
  }
  EXPECT_NO_THROW((void)text::parse_cbor<format_error>(nested(list, 1000), "x"));
  EXPECT_NO_THROW((void)text::parse_cbor<format_error>(nested(map, 1000), "x"));
  // Pieces of strings have no pieces, but a reader may go down all the same.
  for (const std::string& head : {list, map, endless_list, second, std::string("\x5f"), std::string("\x7f")}) {
    try {
      (void)text::parse_cbor<format_error>(nested(head, 100000), "x");
      ADD_FAILURE() << "accepted";
    } catch (const format_error& e) {
      EXPECT_STREQ(e.what(), "x: CBOR nested deeper than 1000");
    }
  }
}

/// What stands beside each other is not nested; each of these values is read as nlohmann's own writer meant it.
TEST(parse_json, cbor_of_many_values_is_not_deep) {
  const nlohmann::json empty_ones(std::vector<nlohmann::json>(5000, nlohmann::json::array({nlohmann::json::object()})));
  for (const nlohmann::json& value : {empty_ones, nlohmann::json(std::string(100000, '_')),
                                      nlohmann::json{{"a", {1, -70000, 0.5, nullptr}}, {"b", true}}}) {
    const std::vector<std::uint8_t> bytes = nlohmann::json::to_cbor(value);
    EXPECT_EQ(text::parse_cbor<format_error>(std::string(bytes.begin(), bytes.end()), "x"), value);
  }
  std::string ended = "\x9f";
  for (int i = 0; i < 5000; ++i) ended += "\x9f\xff\x7f\x61k\xff\xbf\xff";
  EXPECT_EQ(text::parse_cbor<format_error>(ended + "\xff", "x").size(), 15000u);
}

TEST(parse_json, broken_cbor_is_refused) {
  try {
    (void)text::parse_cbor<format_error>("\x82\x01", "x");
    ADD_FAILURE() << "accepted";
  } catch (const format_error& e) {
    EXPECT_STREQ(e.what(), "x: not valid CBOR (at byte 3 of 2)");
  }
}

TEST(parse_json, integers_are_read_exactly) {
  EXPECT_EQ(text::get_exactly<std::uint8_t>(nlohmann::json(255)), 255);
  EXPECT_EQ(text::get_exactly<std::int64_t>(nlohmann::json(INT64_MIN)), INT64_MIN);
  EXPECT_EQ(text::get_exactly<std::uint64_t>(nlohmann::json(UINT64_MAX)), UINT64_MAX);
  EXPECT_EQ(text::get_exactly<std::vector<int>>(nlohmann::json{1, -2}), (std::vector{1, -2}));
  const auto refused = [](auto zero, const char* json) {
    EXPECT_THROW((void)text::get_exactly<decltype(zero)>(nlohmann::json::parse(json)), nlohmann::json::exception)
        << json;
  };
  for (const char* json : {"256", "-1", "1.0", "3e34", "true", "null", "\"1\"", "[1]", "{}"})
    refused(std::uint8_t{}, json);
  refused(std::int64_t{}, "9223372036854775808");
  for (const char* json : {"1", "[1, 2.5]", "[4294967301]", "{\"a\": 1}"}) refused(std::vector<int>{}, json);
}

TEST(parse_json, json_text_replaces_what_is_not_utf8) {
  EXPECT_EQ(text::json_text(nlohmann::json{{"file", "a\xff"}}), "{\"file\":\"a\xEF\xBF\xBD\"}");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
