// Texts that grow token by token.
#include "rlcore/serving/text_stream.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/text/train_bpe.hpp"
#include "rlcore/text/utf8.hpp"
#include "serving/scripted_engine.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::serving::overlap;
using rlcore::serving::text_stream;
using strings = std::vector<std::string>;

/// The pieces of a text whose tokens are its bytes.
strings pieces_of(const std::string& text, const strings& stops, bool include, std::optional<std::string>* stop = {}) {
  text_stream s(scripted::tokenizer(), stops, include, true);
  strings pieces;
  for (const std::int32_t id : scripted::tokenizer().encode(text)) pieces.push_back(s.push(id));
  pieces.push_back(s.finish());
  if (stop != nullptr) *stop = s.stop();
  return pieces;
}
std::string joined(const strings& pieces) {
  std::string all;
  for (const std::string& p : pieces) all += p;
  return all;
}

TEST(text_stream, never_splits_a_character) {
  const std::string text = "Grüße, 你好 👩‍🚀 done";
  const strings pieces = pieces_of(text, {}, false);
  EXPECT_EQ(joined(pieces), text);
  EXPECT_GT(pieces.size(), 20u);
  for (const std::string& p : pieces) EXPECT_EQ(rlcore::text::first_broken_utf8(p), p.size()) << p;
}

TEST(text_stream, an_unfinished_character_at_the_end_is_a_replacement_character) {
  text_stream s(scripted::tokenizer(), {}, false, true);
  const auto ids = scripted::tokenizer().encode("é");
  ASSERT_EQ(ids.size(), 2u);
  EXPECT_EQ(s.push(ids[0]), "");
  EXPECT_EQ(s.finish(), "\xEF\xBF\xBD");
}

TEST(text_stream, ends_before_the_stop_string_or_behind_it) {
  std::optional<std::string> stop;
  EXPECT_EQ(joined(pieces_of("one two three", {"two"}, false, &stop)), "one ");
  EXPECT_EQ(stop, "two");
  EXPECT_EQ(joined(pieces_of("one two three", {"two"}, true)), "one two");
  EXPECT_EQ(joined(pieces_of("one two three", {"four"}, false, &stop)), "one two three");
  EXPECT_EQ(stop, std::nullopt);
}

TEST(text_stream, of_several_stop_strings_the_one_complete_first_counts) {
  std::optional<std::string> stop;
  EXPECT_EQ(joined(pieces_of("abcdef", {"bcde", "cd"}, false, &stop)), "ab");
  EXPECT_EQ(stop, "cd");
  EXPECT_EQ(joined(pieces_of("abcdef", {"cd", "bcd"}, false, &stop)), "a");
  EXPECT_EQ(stop, "bcd");
}

TEST(text_stream, shows_nothing_that_may_be_the_beginning_of_a_stop_string) {
  const strings pieces = pieces_of("a<b<en<end>z", {"<end>"}, false);
  EXPECT_EQ(joined(pieces), "a<b<en");
  for (std::size_t i = 0; i < pieces.size(); ++i) EXPECT_FALSE(pieces[i].ends_with('<')) << i;
}

TEST(text_stream, stop_strings_wait_for_min_tokens) {
  const strings stops{"a", "bcd"};
  const auto text_with = [&](std::int64_t min_tokens) {
    text_stream s(scripted::tokenizer(), stops, false, true, min_tokens);
    std::string text;
    for (const std::int32_t id : scripted::tokenizer().encode("xaxbcdxax")) text += s.push(id);
    return text + s.finish();
  };
  EXPECT_EQ(text_with(0), "x");
  EXPECT_EQ(text_with(1), "x");
  EXPECT_EQ(text_with(2), "xax") << "the first a is the second token";
  EXPECT_EQ(text_with(5), "xax") << "a stop string may begin before, if it is complete behind";
  EXPECT_EQ(text_with(6), "xaxbcdx");
  EXPECT_EQ(text_with(9), "xaxbcdxax");
}

/// A tokenizer whose tokens are one to three characters of "ab<" long.
const rlcore::text::tokenizer& tokenizer_of_cuts() {
  static const rlcore::text::tokenizer only = [] {
    const strings corpus(1, "ab ab ab aba aba <a <a <ab <ab b< b< b<a b<a bb aa"), none;
    return rlcore::text::train_bpe(corpus, 265, none);
  }();
  return only;
}
/// Tokens of a text, cut at random places.
std::vector<std::int32_t> cut(const std::string& text, const rlcore::random_key& key, std::uint32_t round) {
  const auto& tokenizer = tokenizer_of_cuts();
  std::vector<std::int32_t> ids;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 1 + key.below(3, round, 1000 + static_cast<std::uint32_t>(at));
    while (!tokenizer.id_of(text.substr(at, length))) --length;
    const std::string token = text.substr(at, length);
    ids.push_back(*tokenizer.id_of(token));
    at += token.size();
  }
  return ids;
}

/// For texts, stop strings and ways to cut them drawn at random: the text up to where the first stop is complete.
TEST(text_stream, does_not_depend_on_how_the_text_is_cut) {
  const rlcore::random_key key{5};
  std::size_t longer_tokens = 0;
  for (std::uint32_t round = 0; round < 300; ++round) {
    std::string text;
    for (std::uint32_t i = 0; i < 30; ++i) text += "ab<"[key.below(3, round, i)];
    strings stops;
    for (std::uint32_t k = 0; k < 2; ++k) {
      stops.emplace_back();
      for (std::uint32_t i = 0; i <= key.below(4, round, 100 + k); ++i)
        stops.back() += "ab<"[key.below(3, round, 200 + k, i)];
    }
    std::size_t end = text.npos, begin = text.npos;
    for (const std::string& s : stops)
      if (const std::size_t at = text.find(s); at != text.npos)
        if (at + s.size() < end || (at + s.size() == end && at < begin)) end = at + s.size(), begin = at;
    const std::vector<std::int32_t> ids = cut(text, key, round);
    longer_tokens += text.size() - ids.size();
    for (const bool include : {false, true}) {
      text_stream s(tokenizer_of_cuts(), stops, include, true);
      std::string shown;
      for (const std::int32_t id : ids) shown += s.push(id);
      EXPECT_EQ(shown + s.finish(), text.substr(0, include ? end : begin))
          << text << ' ' << stops[0] << ' ' << stops[1];
    }
  }
  EXPECT_GT(longer_tokens, 1000u);
}

TEST(text_stream, special_tokens_have_no_text_unless_asked_for) {
  text_stream without(scripted::tokenizer(), {}, false, true), with(scripted::tokenizer(), {}, false, false);
  EXPECT_EQ(without.push(scripted::eos()), "");
  EXPECT_EQ(with.push(scripted::eos()), "<|im_end|>");
}

TEST(overlap, is_the_longest_end_that_begins_the_mark) {
  EXPECT_EQ(overlap("abc<t", "<tool>"), 2u);
  EXPECT_EQ(overlap("abc", "<tool>"), 0u);
  EXPECT_EQ(overlap("<tool>", "<tool>"), 0u);
  EXPECT_EQ(overlap("aa", "aaa"), 2u);
  EXPECT_EQ(overlap("x", ""), 0u);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
