// What happens to a text before BPE, step by step.
#include "rlcore/text/pre_tokenizer.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rlcore/text/normalizer.hpp"

namespace RLCORE_TEST_ID {

namespace text = rlcore::text;
using nlohmann::json;
using strings = std::vector<std::string>;

namespace {

TEST(pre_tokenizer, splits_as_its_description_says) {
  const auto run = [](const char* j, const char* s) {
    strings words;
    text::pre_tokenizer{json::parse(j)}(s, [&](std::string_view w) { words.emplace_back(w); });
    return words;
  };
  EXPECT_EQ(run("null", "a b"), (strings{"a b"}));
  EXPECT_EQ(run("null", ""), strings{});
  EXPECT_EQ(run(R"({"type": "ByteLevel", "add_prefix_space": false})", "I'm 12,  ok"),
            (strings{"I", "'m", " 12", ",", " ", " ok"}));
  EXPECT_EQ(run(R"({"type": "ByteLevel", "add_prefix_space": true, "use_regex": false})", "a b"), (strings{" a b"}));
  EXPECT_EQ(run(R"({"type": "Split", "pattern": {"String": "-"}, "behavior": "Removed", "invert": false})", "a-b--c"),
            (strings{"a", "b", "c"}));
  EXPECT_EQ(run(R"({"type": "Split", "pattern": {"Regex": "[a-c]+"}, "behavior": "Removed", "invert": true})", "abxxc"),
            (strings{"ab", "c"}));
  EXPECT_EQ(
      run(R"({"type": "Split", "pattern": {"Regex": "x*"}, "behavior": "Isolated", "invert": false})", "a\u00e9xxb"),
      (strings{"a", "\u00e9", "xx", "b"}));  // empty matches cut, too
  EXPECT_EQ(run(R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
                   {"type": "ByteLevel", "add_prefix_space": false}]})",
                "a 12"),
            (strings{"a", " ", "1", "2"}));
  EXPECT_EQ(run(R"({"type": "Digits"})", "a12"), (strings{"a", "12"}));
  // \s is Unicode's White_Space: U+180E is none, U+0085 is one.
  EXPECT_EQ(run(R"({"type": "Split", "pattern": {"Regex": "\\s"}, "behavior": "Removed"})", "a\u180eb\u0085c"),
            (strings{"a\u180eb", "c"}));
  EXPECT_THROW(run(R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}]})", ""),
               rlcore::format_error);
}

TEST(normalizer, steps_do_what_their_names_say) {
  const auto run = [](const char* j, const char* s) { return text::normalizer(json::parse(j))(s); };
  EXPECT_EQ(run("null", "e\u0301"), "e\u0301");
  EXPECT_EQ(run(R"({"type": "NFC"})", "e\u0301 \u1100\u1161\u11a8 \u212b"), "\u00e9 \uac01 \u00c5");
  EXPECT_EQ(run(R"({"type": "NFD"})", "\u00e9 \uac01"), "e\u0301 \u1100\u1161\u11a8");
  EXPECT_EQ(run(R"({"type": "NFKC"})", "\ufb01 \u2460 e\u0301"), "fi 1 \u00e9");
  EXPECT_EQ(run(R"({"type": "NFKD"})", "\ufb01\u00e9"), "fie\u0301");
  EXPECT_EQ(run(R"({"type": "Lowercase"})", "AbC \u00c9 \u0130 \u03a3"), "abc \u00e9 i\u0307 \u03c3");
  EXPECT_EQ(run(R"({"type": "Strip", "strip_left": true, "strip_right": true})", " \u3000 a b\n"), "a b");
  EXPECT_EQ(run(R"({"type": "Strip", "strip_left": false, "strip_right": true})", " a "), " a");
  EXPECT_EQ(run(R"({"type": "Strip", "strip_left": true, "strip_right": false})", " a "), "a ");
  EXPECT_EQ(run(R"({"type": "Strip"})", " \n"), "");
  EXPECT_EQ(run(R"({"type": "Replace", "pattern": {"String": "."}, "content": "!"})", "a.b"), "a!b");
  EXPECT_EQ(run(R"({"type": "Replace", "pattern": {"Regex": "\\d+"}, "content": "#"})", "12a345"), "#a#");
  EXPECT_EQ(run(R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "_"}, {"type": "Replace",
                   "pattern": {"String": "b"}, "content": "bb"}]})",
                "ab"),
            "_abb");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
