// UTF-8 against the tables of the Unicode standard.
#include "rlcore/text/utf8.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace RLCORE_TEST_ID {

namespace text = rlcore::text;

namespace {

TEST(utf8, every_scalar_value_reads_back) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string s;
    text::append_utf8(s, c);
    const text::utf8_step step = text::read_utf8(s, 0);
    ASSERT_EQ(step.type, text::utf8_step::kind::character);
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(step.length, s.size());
    for (std::size_t cut = 1; cut < s.size(); ++cut)
      ASSERT_EQ(text::read_utf8(s.substr(0, cut), 0).type, text::utf8_step::kind::cut_off);
  }
}

TEST(utf8, broken_parts_are_replaced_as_the_unicode_standard_shows) {
  // Unicode 15, section 3.9, tables 3-8 to 3-11: U+FFFD for each maximal subpart.
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(text::utf8_lossy("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(text::utf8_lossy("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(text::utf8_lossy("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(text::utf8_lossy("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
  EXPECT_EQ(text::utf8_lossy("ok \xF0\x9F\x98"), "ok " + r);
}

TEST(byte_alphabet, is_a_bijection_with_the_known_letters) {
  const text::byte_alphabet alphabet;
  EXPECT_EQ(alphabet.spell(" a\n\xFF"),
            "\xC4\xA0"
            "a\xC4\x8A\xC3\xBF");  // Ġ a Ċ ÿ
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(alphabet.unspell(alphabet.spell(all)), all);
  EXPECT_EQ(alphabet.unspell("a b"), std::nullopt);
  EXPECT_EQ(alphabet.byte(0x144), -1);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
