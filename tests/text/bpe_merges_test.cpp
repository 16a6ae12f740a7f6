// Merges by hand, for both loops.
#include "rlcore/text/bpe_model.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace RLCORE_TEST_ID {

namespace text = rlcore::text;

namespace {

TEST(bpe_merges, long_and_short_words_merge_alike) {
  text::bpe_merges merges(4);  // 0 0 -> 2, 2 2 -> 3, 0 1 -> 4, 3 3 -> 5
  merges.add(0, 0, {0, 2});
  merges.add(2, 2, {1, 3});
  merges.add(0, 1, {2, 4});
  merges.add(3, 3, {3, 5});
  EXPECT_EQ(merges.find(1, 0).rank, -1);
  std::vector<std::int32_t> unit{0, 0, 0, 0, 0, 1}, once = unit, many;  // "aaaaab" -> [aaaa][ab]
  merges.apply(once);
  EXPECT_EQ(once, (std::vector<std::int32_t>{3, 4}));
  for (int i = 0; i < 20; ++i) many.insert(many.end(), unit.begin(), unit.end());
  std::vector<std::int32_t> expected;
  for (int i = 0; i < 20; ++i) expected.insert(expected.end(), once.begin(), once.end());
  merges.apply(many);
  EXPECT_EQ(many, expected);
  std::vector<std::int32_t> run(100, 0);
  merges.apply(run);  // 50 pairs, 25 fours, 12 eights and a four
  EXPECT_EQ(run, (std::vector<std::int32_t>{5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 3}));
  std::vector<std::int32_t> none;
  merges.apply(none);
  EXPECT_TRUE(none.empty());
}

}  // namespace
}  // namespace RLCORE_TEST_ID
