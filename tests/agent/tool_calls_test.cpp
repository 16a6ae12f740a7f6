// Tool calls are read as verl reads them, whatever the policy writes.
#include "rlcore/agent/tool_calls.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/text/big_integer.hpp"
#include "rlcore/text/utf8.hpp"
#include "support/growth.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using agent::cut_side, agent::parsed_turn;

nlohmann::json golden() { return nlohmann::json::parse(scratch::read(RLCORE_REFERENCE_DIR "/tool_calls.json")); }

std::string repeated(const std::string& part, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += part;
  return all;
}

std::string block(const std::string& arguments) {
  return "<tool_call>{\"name\": \"f\", \"arguments\": " + arguments + "}</tool_call>";
}

TEST(tool_calls, are_those_of_two_versions_of_verl) {
  const nlohmann::json all = golden();
  std::size_t calls = 0, failures = 0;
  for (const auto& row : all["calls"]) {
    const std::string text = row[0];
    const parsed_turn turn = agent::parse_hermes(text);
    EXPECT_EQ(turn.content, row[1].get<std::string>()) << text;
    EXPECT_EQ(turn.failures, row[2].get<std::size_t>()) << text;
    ASSERT_EQ(turn.calls.size(), (row.size() - 3) / 2) << text;
    for (std::size_t i = 0; i < turn.calls.size(); ++i) {
      EXPECT_EQ(turn.calls[i].name, row[3 + 2 * i].get<std::string>()) << text;
      EXPECT_EQ(agent::arguments_text(turn.calls[i].arguments), row[4 + 2 * i].get<std::string>()) << text;
    }
    calls += turn.calls.size(), failures += turn.failures;
  }
  EXPECT_TRUE(all["differ"].empty());
  EXPECT_GE(all["calls"].size(), 500u);
  EXPECT_GT(calls, 300u);
  EXPECT_GT(failures, 300u);
}

TEST(tool_calls, have_values_that_tools_can_use) {
  const parsed_turn turn = agent::parse_hermes(
      "I call." +
      block(R"({"b": 1, "a": -2, "c": 0.5, "b": [true, null, "\u00e9\n"], "n": NaN, "big": 18446744073709551616})") +
      "Done.");
  EXPECT_EQ(turn.content, "I call.Done.");
  ASSERT_EQ(turn.calls.size(), 1u);
  EXPECT_EQ(turn.calls[0].name, "f");
  EXPECT_TRUE(turn.calls[0].further.is_null());
  const nlohmann::ordered_json& x = turn.calls[0].arguments;
  ASSERT_TRUE(x.is_object());
  EXPECT_EQ(x.begin().key(), "b");
  EXPECT_EQ(x["b"].dump(), R"([true,null,"é\n"])");
  EXPECT_EQ(x["a"].get<int>(), -2);
  EXPECT_EQ(x["c"].get<double>(), 0.5);
  EXPECT_TRUE(x["n"].is_number_float() && x["n"].get<double>() != x["n"].get<double>());
  EXPECT_TRUE(text::is_big_integer(x["big"]));
  EXPECT_EQ(text::integer_digits(x["big"]), "18446744073709551616");
}

TEST(tool_calls, nest_no_deeper_than_the_limit) {
  const auto failures = [](const std::string& text) { return agent::parse_hermes(text).failures; };
  const auto lists = [](std::size_t levels) { return block(std::string(levels, '[') + std::string(levels, ']')); };
  EXPECT_EQ(failures(lists(agent::call_depth_limit - 1)), 0u);
  EXPECT_EQ(failures(lists(agent::call_depth_limit)), 1u);
  EXPECT_EQ(failures(lists(1'000'000)), 1u);
  EXPECT_EQ(failures(block(repeated("{\"a\":", 1'000'000))), 1u);
  EXPECT_EQ(failures(block("[" + repeated("[[]],", 1000) + "1]")), 0u);
}

TEST(tool_calls, broken_utf8_is_read_as_replacement_characters) {
  const parsed_turn turn = agent::parse_hermes("\xff" + block("\"\xe6\xb0|\"") + "\xf0\x9f\x98");
  EXPECT_EQ(turn.content, "\xEF\xBF\xBD\xEF\xBF\xBD");
  ASSERT_EQ(turn.calls.size(), 1u);
  EXPECT_EQ(turn.calls[0].arguments, "\xEF\xBF\xBD|");
}

TEST(tool_calls, any_bytes_are_taken) {
  static const std::vector<std::string> pieces{"<tool_call>",
                                               "</tool_call>",
                                               "{",
                                               "}",
                                               "[",
                                               "]",
                                               "\"",
                                               "\\",
                                               "\\u",
                                               "d83d",
                                               "\\ude00",
                                               ",",
                                               ":",
                                               "\"name\":\"f\"",
                                               "\"arguments\":",
                                               "-",
                                               "0",
                                               "1e",
                                               ".5",
                                               "NaN",
                                               "null",
                                               " ",
                                               "\n",
                                               "\xf0\x9f",
                                               "\x98\x80"};
  const random_key key{16};
  for (std::uint32_t round = 0; round < 20000; ++round) {
    std::string text = round % 2 == 0 ? "<tool_call>" : "<tool_call>{\"name\":\"f\",\"arguments\":";
    const std::uint32_t length = key.below(20, round);
    for (std::uint32_t i = 0; i < length; ++i) {
      const std::uint32_t n = key.below(static_cast<std::uint32_t>(pieces.size()) + 1, round, 2 * i + 1);
      text += n < pieces.size() ? pieces[n] : std::string(1, static_cast<char>(key.below(256, round, 2 * i + 2)));
    }
    text += round % 2 == 0 ? "</tool_call>" : "}</tool_call>";
    const parsed_turn turn = agent::parse_hermes(text);
    EXPECT_GE(turn.failures + turn.calls.size(), 1u) << text;
    EXPECT_EQ(text::first_broken_utf8(turn.content), turn.content.size()) << text;
    for (const text::tool_call& call : turn.calls) {  // written again, a call stays the same
      const std::string arguments = agent::arguments_text(call.arguments);
      const parsed_turn again = agent::parse_hermes(block(arguments));
      // Arguments with a closing tag end the block early.
      if (arguments.find("</tool_call>") != arguments.npos) continue;
      ASSERT_EQ(again.calls.size(), 1u) << text;
      EXPECT_EQ(agent::arguments_text(again.calls[0].arguments), arguments) << text;
    }
  }
}

TEST(tool_calls, are_read_in_linear_time) {
  const auto read = [](const std::string& text) { agent::parse_hermes(text); };
  const std::string call = block("{\"a\": [1, 2.5, \"x\"]}");
  for (const std::string& part : {std::string("<tool_call>"), std::string("</tool_call>"), std::string("<tool_call"),
                                  std::string("<tool_call></tool_call>"), std::string("</tool_call><tool_call>"), call,
                                  std::string("\xff<tool_call>")})
    EXPECT_LE(growth_of_time(5000, [&](std::size_t n) { return repeated(part, n); }, read), linear_growth) << part;
  const std::vector<std::pair<std::string, std::string>> values{
      {"", "["},   {"", "{\"a\":"}, {"[", "[],"}, {"[", "{},"}, {"[", "1.5,"}, {"\"", "\\u0041"}, {"\"", "\\ud83d"},
      {"\"", "x"}, {"0.", "9"},     {"1e", "9"},  {"", "9"},    {"", " "},     {"0.", "0"},       {"[", "\"x\","}};
  for (const auto& [begin, part] : values)
    EXPECT_LE(growth_of_time(
                  10000, [&](std::size_t n) { return block(begin + repeated(part, n)); }, read),
              linear_growth)
        << begin << part;
  EXPECT_LE(growth_of_time(
                4000,
                [](std::size_t n) {
                  std::string members = "{\"key\": 0";
                  for (std::size_t i = 0; i < n; ++i) members += ",\"key" + std::to_string(i % 3000) + "\": 1";
                  return block(members + "}");
                },
                read),
            linear_growth);
  const parsed_turn many = agent::parse_hermes(repeated("<tool_call>", 100'000) + "</tool_call>");
  EXPECT_EQ(many.failures, 1u);
  EXPECT_TRUE(many.content.empty());
}

TEST(tool_text, is_cut_as_verl_cuts_it) {
  const nlohmann::json all = golden();
  for (const auto& row : all["cut"]) {
    const std::string side = row[2];
    const cut_side where = side == "left" ? cut_side::left : side == "right" ? cut_side::right : cut_side::middle;
    EXPECT_EQ(agent::cut_tool_text(row[0].get<std::string>(), row[1], where), row[3].get<std::string>()) << row;
  }
  EXPECT_GE(all["cut"].size(), 90u);
}

TEST(tool_text, is_cut_to_nothing) {
  for (const std::int64_t longest : {INT64_MIN, std::int64_t{-1}, std::int64_t{0}}) {
    EXPECT_EQ(agent::cut_tool_text("abc", longest, cut_side::left), "(truncated)...");
    EXPECT_EQ(agent::cut_tool_text("abc", longest, cut_side::right), "...(truncated)");
    EXPECT_EQ(agent::cut_tool_text("abc", longest, cut_side::middle), "...(truncated)...");
    EXPECT_EQ(agent::cut_tool_text("", longest, cut_side::middle), "");
  }
  EXPECT_EQ(agent::cut_tool_text("abc", 1, cut_side::middle), "...(truncated)...");
  EXPECT_EQ(agent::cut_tool_text("abc", INT64_MAX, cut_side::left), "abc");
  EXPECT_EQ(agent::cut_tool_text("\x80\x80\xff", 1, cut_side::left), "\x80\x80\xff");  // no UTF-8: no crash
}

TEST(tool_text, is_cleaned_as_python_replaces_errors) {
  const nlohmann::json all = golden();
  for (const auto& row : all["decode"]) {
    const std::string digits = row[0];
    std::string bytes;
    for (std::size_t i = 0; i < digits.size(); i += 2)
      bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
    EXPECT_EQ(agent::clean_tool_text(bytes), row[1].get<std::string>()) << digits;
  }
  EXPECT_GE(all["decode"].size(), 300u);
  EXPECT_EQ(agent::clean_tool_text(std::string("a\0b", 3)),
            "a\xEF\xBF\xBD"
            "b");
}

TEST(tool_text, ends_at_a_character) {
  const std::string text = "a\xC3\xA9\xE6\xB0\xB4\xF0\x9F\x98\x80z";
  for (std::size_t most = 0; most <= text.size() + 1; ++most) {
    const std::string cut = agent::clean_tool_text(text, most);
    EXPECT_LE(cut.size(), most);
    EXPECT_GE(cut.size() + 4, std::min(most, text.size()));
    EXPECT_TRUE(text.starts_with(cut));
    EXPECT_EQ(text::first_broken_utf8(cut), cut.size());
  }
  EXPECT_EQ(agent::clean_tool_text(std::string(3'000'000, 'x')).size(), std::size_t{1} << 20);
  EXPECT_LE(agent::clean_tool_text(std::string(3'000'000, '\xff')).size(), std::size_t{1} << 20);
  const auto clean = [](const std::string& bytes) {
    agent::cut_tool_text(agent::clean_tool_text(bytes, bytes.size()), 100, cut_side::middle);
  };
  for (const char* part : {"x", "\xff", "\xF0\x9F\x98\x80", "\xF0\x9F"})
    EXPECT_LE(growth_of_time(50000, [&](std::size_t n) { return repeated(part, n); }, clean), linear_growth) << part;
}

}  // namespace
}  // namespace RLCORE_TEST_ID
