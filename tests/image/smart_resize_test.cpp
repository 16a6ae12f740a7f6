// Against transformers and qwen-vl-utils (reference/image.py).
#include "rlcore/image/pixels.hpp"

#include <gtest/gtest.h>

#include <set>

#include "image/drawn.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using image::size;

TEST(smart_resize, the_sizes_of_transformers) {
  std::set<std::pair<std::int64_t, std::int64_t>> others;  // where qwen-vl-utils differs
  for (const auto& row : test::image_reference()["sizes"]) {
    const size from{row[0], row[1]};
    const image::size_limits limits{28, row[2], row[3]};
    if (row[4].is_null()) {
      EXPECT_THROW(image::smart_resize(from, limits), format_error) << row;
      continue;
    }
    const size to = image::smart_resize(from, limits);
    EXPECT_EQ(to, (size{row[4][0], row[4][1]})) << row;
    if (row[4] != row[5] && row[2] == 3136 && row[3] == 12845056) others.emplace(from.height, from.width);
  }
  // With the limits of released models they part over sides that round to 0.
  EXPECT_FALSE(others.empty());
  for (const auto& [height, width] : others) EXPECT_LE(std::min(height, width), 14);
}

TEST(smart_resize, an_error_names_the_size) {
  try {
    image::smart_resize({1, 201}, {});
    FAIL();
  } catch (const format_error& e) {
    EXPECT_STREQ(e.what(), "an image of 201 x 1 pixels; a side may be at most 200 times the other");
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
