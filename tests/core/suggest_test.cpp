#include "rlcore/core/suggest.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace RLCORE_TEST_ID {
namespace {

using rlcore::did_you_mean;
using rlcore::edit_distance;
using rlcore::nearest;
using names = std::vector<std::string>;

TEST(suggest, distances_of_the_textbooks) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("saturday", "sunday"), 3u);
  EXPECT_EQ(edit_distance("intention", "execution"), 5u);
  EXPECT_EQ(edit_distance("clip_raito", "clip_ratio"), 1u);  // neighbours swapped
  EXPECT_EQ(edit_distance("ca", "abc"), 3u);                 // optimal string alignment; 2 without its restriction
}

TEST(suggest, distance_is_a_symmetric_measure) {
  const names words{"lr", "clip_ratio", "clip_ratio_low", "entropy_coeff", "", "x"};
  for (const auto& a : words) {
    EXPECT_EQ(edit_distance(a, a), 0u);
    for (const auto& b : words) EXPECT_EQ(edit_distance(a, b), edit_distance(b, a));
  }
}

TEST(suggest, a_limit_changes_no_distance_below_it) {
  std::uint32_t state = 1;
  const auto random = [&](std::uint32_t n) { return ((state = state * 1664525u + 1013904223u) >> 16) % n; };
  const auto word = [&] {
    std::string text;
    for (std::uint32_t n = random(9); n > 0; --n) text += static_cast<char>('a' + random(3));
    return text;
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string a = word(), b = word();
    const std::size_t whole = edit_distance(a, b);
    for (std::size_t limit = 0; limit < 10; ++limit)
      ASSERT_EQ(edit_distance(a, b, limit), std::min(whole, limit + 1)) << a << " " << b << " " << limit;
  }
}

TEST(suggest, nearest_comes_first) {
  const names known{"clip_ratio_high", "clip_ratio", "grad_clip", "clip_ratio_low"};
  EXPECT_EQ(nearest("clip_rati", known), (names{"clip_ratio"}));
  EXPECT_EQ(nearest("clip_ratio_lo", known).front(), "clip_ratio_low");
  EXPECT_EQ(nearest("temperature", known), names{});
  EXPECT_EQ(nearest("abcd", names{"abcf", "abce", "abcd1", "zbcd"}, 2), (names{"abcf", "abce"}));
}

TEST(suggest, appends_to_a_message) {
  constexpr std::array<std::string_view, 2> known{"grpo", "gae"};
  EXPECT_EQ(did_you_mean("grop", known), " (did you mean 'grpo'?)");
  EXPECT_EQ(did_you_mean("reinforce", known), "");
  EXPECT_EQ(did_you_mean("ab", names{"ac", "ad"}), " (did you mean 'ac' or 'ad'?)");
  EXPECT_EQ(did_you_mean("x", names{}), "");
}

TEST(suggest, shares_something_with_what_it_suggests) {
  // Replacing every letter is not a misspelling.
  EXPECT_EQ(did_you_mean("k", names{"lr", "n", "tp"}), "");
  EXPECT_EQ(did_you_mean("mu", names{"lr"}), "");
  EXPECT_EQ(did_you_mean("lr", names{"lt"}), " (did you mean 'lt'?)");
}

TEST(suggest, long_names_are_not_compared) {
  const std::string long_name(1'000'000, 'a');
  EXPECT_EQ(did_you_mean(long_name, names{long_name + "b", "abc"}), "");
  EXPECT_EQ(did_you_mean("abcd", names{long_name, "abce"}), " (did you mean 'abce'?)");
  const std::string name(256, 'a');
  EXPECT_EQ(nearest(name, names(10, name + "b"), 1), names{name + "b"});
  EXPECT_EQ(nearest(name + "a", names(10, name + "b"), 1), names{});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
