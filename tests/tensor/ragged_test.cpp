#include "rlcore/tensor/view.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace RLCORE_TEST_ID {
namespace {

using rows = std::vector<std::vector<int>>;

TEST(ragged, returns_the_rows_it_was_given) {
  const rows given{{1, 2, 3}, {}, {4}, {5, 6}};
  rlcore::ragged<int> packed;
  EXPECT_TRUE(packed.empty());
  for (const auto& row : given) packed.push_back(row);
  ASSERT_EQ(packed.rows(), given.size());
  EXPECT_EQ(packed.size(), 6u);
  EXPECT_EQ(packed.offsets, (std::vector<std::int32_t>{0, 3, 3, 4, 6}));
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(packed.row(i), given[i])) << i;
    EXPECT_EQ(packed.length(i), given[i].size());
  }
  EXPECT_EQ(packed.begin(3), 4u);
}

TEST(ragged, a_row_of_nothing_is_a_row) {
  rlcore::ragged<float> packed;
  packed.push_back({});
  EXPECT_FALSE(packed.empty());
  EXPECT_EQ(packed.rows(), 1u);
  EXPECT_TRUE(packed.row(0).empty());
}

TEST(ragged, clear_keeps_the_memory) {
  rlcore::ragged<int> packed;
  packed.reserve(2, 8);
  const int* const memory = packed.values.data();
  packed.push_back(std::vector{1, 2, 3, 4});
  packed.push_back(std::vector{5, 6, 7, 8});
  packed.clear();
  EXPECT_TRUE(packed.empty());
  packed.push_back(std::vector{9});
  EXPECT_EQ(packed.values.data(), memory);
  packed.row(0)[0] = 10;
  EXPECT_EQ(packed.values.front(), 10);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
