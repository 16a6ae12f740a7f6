// Decoding steps of vocabularies that are not byte-level.
#include "rlcore/text/decoder.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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
}

}  // namespace
