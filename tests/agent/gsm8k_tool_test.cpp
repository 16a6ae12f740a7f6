// The GSM8K tool replies what verl's replies, to the byte: Python's repr and str() included.
#include "rlcore/agent/builtin_tools.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "data/scratch.hpp"
#include "rlcore/agent/tool_calls.hpp"
#include "rlcore/text/big_integer.hpp"
#include "rlcore/text/python_json.hpp"
#include "rlcore/text/utf8.hpp"
#include "support/growth.hpp"
#include "support/thrown.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using json = nlohmann::ordered_json;

nlohmann::json golden() { return nlohmann::json::parse(scratch::read(RLCORE_REFERENCE_DIR "/tool_calls.json")); }

/// JSON as the policy writes it, with NaN and integers of any size.
json read(const std::string& text) {
  agent::parsed_turn turn =
      agent::parse_hermes("<tool_call>{\"name\": \"f\", \"arguments\": " + text + "}</tool_call>");
  return turn.calls.empty() ? json("no JSON: " + text) : turn.calls[0].arguments;
}

TEST(gsm8k_tool, replies_as_verl_does) {
  agent::gsm8k_tool tool(agent::gsm8k_tool::default_schema());
  std::size_t right = 0, without_number = 0;
  const nlohmann::json all = golden();
  for (const auto& row : all["gsm8k"]) {
    const json kwargs{{"ground_truth", row[1]}};
    const agent::tool_reply reply = tool.call({tool.name(), read(row[0]), &kwargs});
    EXPECT_EQ(reply.text, row[2].get<std::string>()) << row[0];
    EXPECT_EQ(reply.reward, row[3].get<double>()) << row[0];
    right += reply.reward == 0, without_number += reply.text.ends_with("reward=0");
  }
  EXPECT_GT(all["gsm8k"].size(), 200u);
  EXPECT_GT(right, 20u);
  EXPECT_GT(without_number, 10u);
}

TEST(gsm8k_tool, has_the_schema_that_it_is_given) {
  EXPECT_EQ(agent::gsm8k_tool(agent::gsm8k_tool::default_schema()).name(), "calc_gsm8k_reward");
  const json function = agent::gsm8k_tool::default_schema()["function"];
  EXPECT_EQ(function["parameters"]["required"].dump(), "[\"answer\"]");
  EXPECT_EQ(function["parameters"]["properties"]["answer"]["type"], "string");
  const json own = agent::function_schema("check", "Checks.", {{"answer", "string", "It."}});
  const agent::gsm8k_tool tool(own);
  EXPECT_EQ(tool.schema(), own);
  EXPECT_EQ(tool.name(), "check");
}

TEST(gsm8k_tool, says_what_is_missing) {
  agent::gsm8k_tool tool(agent::gsm8k_tool::default_schema());
  const auto refused = [&](const json& arguments, const json* kwargs) {
    EXPECT_THROW(tool.call({tool.name(), arguments, kwargs}), agent::tool_error);
    return thrown_by([&] { tool.call({tool.name(), arguments, kwargs}); });
  };
  const json truth{{"ground_truth", "72"}}, arguments{{"answer", "72"}};
  for (const json& other : {json("72"), json(72), json::array({"72"}), json(nullptr)})
    EXPECT_EQ(refused(other, &truth), "expected {\"answer\": text}");
  const std::string missing = "the row has no text as tools_kwargs.calc_gsm8k_reward.create_kwargs.ground_truth";
  const json number{{"ground_truth", 72}}, none{{"ground_truth", nullptr}}, empty = json::object(),
                                                                            list = json::array();
  EXPECT_EQ(refused(arguments, nullptr), missing);
  for (const json* kwargs : {&number, &none, &empty, &list}) EXPECT_EQ(refused(arguments, kwargs), missing);
}

TEST(python_repr, is_that_of_python) {
  const nlohmann::json all = golden();
  for (const auto& row : all["repr"])
    EXPECT_EQ(text::python_repr(row[0].get<std::string>()), row[1].get<std::string>()) << row[0];
  EXPECT_GE(all["repr"].size(), 1000u);
  EXPECT_EQ(text::python_repr("\xff\xf0\x9f"), "'\xEF\xBF\xBD\xEF\xBF\xBD'");
  EXPECT_EQ(text::python_repr(std::string(1, '\0')), "'\\x00'");
}

// Every code point but those that a later version of Unicode may assign.
TEST(python_repr, escapes_what_python_calls_not_printable) {
  const nlohmann::json all = golden();
  const auto& changes = all["printable"];
  std::size_t checked = 0, wrong = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const std::string kind = changes[i][1];
    const char32_t end = i + 1 < changes.size() ? changes[i + 1][0].get<char32_t>() : 0x110000;
    for (char32_t code = changes[i][0].get<char32_t>(); code < end; ++code) {
      if (kind == "unassigned" || (code >= 0xD800 && code < 0xE000) || code == U'\\' || code == U'\'') continue;
      std::string character;
      text::append_utf8(character, code);
      ++checked, wrong += (text::python_repr(character) == "'" + character + "'") != (kind == "printable");
    }
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(checked, 250'000u);
}

TEST(python_repr, of_json_values_is_that_of_python) {
  const nlohmann::json all = golden();
  for (const auto& row : all["str"])
    EXPECT_EQ(text::python_str(read(row[0].get<std::string>())), row[1].get<std::string>()) << row[0];
  EXPECT_GE(all["str"].size(), 50u);
  EXPECT_EQ(text::python_str(json("it's")), "it's");
  EXPECT_EQ(text::python_str(json{{"a'", json::array({json("b"), json(nullptr)})}}), "{\"a'\": ['b', None]}");
}

TEST(python_repr, takes_linear_time) {
  for (const char* part : {"'", "'\"", "\\", "\xff", "\xE2\x80\xA8", "x"})
    EXPECT_LE(growth_of_time(
                  20000,
                  [&](std::size_t n) {
                    std::string all;
                    for (std::size_t i = 0; i < n; ++i) all += part;
                    return all;
                  },
                  [](const std::string& all) { text::python_repr(all); }),
              linear_growth)
        << part;
}

}  // namespace
}  // namespace RLCORE_TEST_ID
