// Decoding steps of vocabularies that are not byte-level.
#include "rlcore/text/decoder.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace RLCORE_TEST_ID {

namespace text = rlcore::text;
using nlohmann::json;

namespace {

TEST(decoder, steps_of_character_vocabularies) {
  const text::decoder none{json(nullptr)};
  EXPECT_EQ(none({"a", "b"}), "a b");
  const text::decoder chain(json::parse(R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern":
      {"Regex": "_+"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
      {"type": "Strip", "content": " ", "start": 1, "stop": 2}]})"));
  EXPECT_EQ(chain({"__a", "<0xC3>", "<0xA9>", "_b", "<0xff>", "<0xG0>", "___", "_", "_"}), "a\u00e9 b\uFFFD<0xG0> ");
  EXPECT_THROW(text::decoder(json::parse(R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})")),
               rlcore::format_error);
  EXPECT_THROW(
      text::decoder(json::parse(R"({"type": "Strip", "content": "", "start": 9223372036854775807, "stop": 0})")),
      rlcore::format_error);  // would not end
}

TEST(decoder, only_llamas_steps_go_token_by_token) {
  const auto in_order = [](const std::string& steps) {
    return text::decoder(json::parse(R"({"type": "Sequence", "decoders": [)" + steps + "]}")).in_order();
  };
  const std::string marks = R"({"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "})",
                    bytes = R"({"type": "ByteFallback"})", fuse = R"({"type": "Fuse"})",
                    strip = R"({"type": "Strip", "content": " ", "start": 1, "stop": 0})";
  EXPECT_TRUE(text::decoder(json(nullptr)).in_order());
  EXPECT_TRUE(in_order(marks + "," + bytes + "," + fuse + "," + strip));
  EXPECT_TRUE(in_order(marks + "," + strip));
  EXPECT_FALSE(in_order(fuse + "," + marks));
  EXPECT_FALSE(in_order(R"({"type": "Replace", "pattern": {"String": "ab"}, "content": "c"})"));
  for (const char* other : {R"("content": " ", "start": 2, "stop": 0})", R"("content": " ", "start": 0, "stop": 1})",
                            R"("content": "a", "start": 1, "stop": 0})"})
    EXPECT_FALSE(in_order(R"({"type": "Strip", )" + std::string(other)));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
