#include "rlcore/train/model/leaf_plan.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "nn/tiny_vision.hpp"
#include "rlcore/nn/vision/vision_cost.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

TEST(leaf_plan, deals_rows_with_images_to_all_leaves) {
  const nn::config c = tiny_vision::config();
  const double image = nn::vision_cost(c, {10, 14});
  EXPECT_GT(image, 0);
  const train::leaf_plan plan(c, {20, 20, 20, 20}, 2, true, 0, 0, {image, image, 0, 0});
  for (std::size_t leaf = 0; leaf < 2; ++leaf)
    plan.for_each_pass(leaf, [](std::span<const std::uint32_t> rows) {
      ASSERT_EQ(rows.size(), 2u);
      EXPECT_LT(rows[0], 2u);
      EXPECT_GE(rows[1], 2u);
    });
}

}  // namespace
}  // namespace RLCORE_TEST_ID
