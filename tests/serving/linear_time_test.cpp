// Neither requests nor answers take quadratic time: twice the input takes about twice the time.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rlcore/serving/protocol/body_fields.hpp"
#include "rlcore/serving/text_stream.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/text/utf8.hpp"
#include "support/growth.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace serving = rlcore::serving;

/// Tokens are bytes.
const rlcore::text::tokenizer& bytes() {
  static const rlcore::text::tokenizer made = [] {
    const rlcore::text::byte_alphabet alphabet;
    nlohmann::json vocabulary = nlohmann::json::object();
    for (int byte = 0; byte < 256; ++byte) {
      std::string name;
      rlcore::text::append_utf8(name, alphabet.character(static_cast<std::uint8_t>(byte)));
      vocabulary[name] = byte;
    }
    const nlohmann::json empty = nlohmann::json::array();
    return rlcore::text::tokenizer::parse(
        nlohmann::json{{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", empty}}},
                       {"added_tokens", empty},
                       {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
                       {"decoder", {{"type", "ByteLevel"}}}}
            .dump(),
        "");
  }();
  return made;
}

TEST(linear_time, answers_that_repeat_the_beginning_of_a_stop_string) {
  const auto stops = [](std::size_t n) { return std::vector<std::string>{std::string(n, 'a') + "b"}; };
  const auto follow = [](const std::vector<std::string>& words) {
    serving::text_stream s(bytes(), words, false, true);
    std::size_t shown = 0;
    for (std::size_t i = 0; i < 2 * words[0].size(); ++i) shown += s.push('a').size();
    EXPECT_EQ(shown + words[0].size() - 1, 2 * words[0].size());  // the rest may begin the stop string
    s.push('b');
    EXPECT_EQ(s.stop(), words[0]);
  };
  EXPECT_LE(growth_of_time(2000, stops, follow), linear_growth);
}

TEST(linear_time, tool_calls_that_have_no_end) {
  const auto call = [](std::size_t n) { return "<tool_call>{\"name\": \"" + std::string(20 * n, 'x'); };
  const auto take = [](const std::string& text) {
    serving::tool_call_parser parser;
    for (const char c : text) parser.push(std::string(1, c), false);
    EXPECT_EQ(parser.push("", true).content, text);
  };
  EXPECT_LE(growth_of_time(1000, call, take), linear_growth);
  const auto calls = [](std::size_t n) {
    std::string text;
    while (n-- > 0) text += "<tool_call>{}";
    return text;
  };
  const auto take_all = [](const std::string& text) {
    EXPECT_EQ(serving::tool_call_parser().push(text, true).content, text);
  };
  EXPECT_LE(growth_of_time(1000, calls, take_all), linear_growth);
}

TEST(linear_time, bodies_of_objects_with_many_members) {
  const auto body = [](std::size_t n) {
    std::string text = "{\"messages\": [{}";
    for (std::size_t i = 0; i < n; ++i) {
      text += ",{\"member\": 0";
      for (int k = 0; k < 200; ++k) text += ",\"member" + std::to_string(k) + "\":0";
      text += "}";
    }
    return text + "]}";
  };
  EXPECT_LE(growth_of_time(10, body, [](const std::string& text) { serving::parse_body(text); }), linear_growth);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
