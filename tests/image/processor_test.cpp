// Patches of 500 images, to the bit, against transformers' processors (reference/image.py).
#include "rlcore/image/processor.hpp"

#include <gtest/gtest.h>

#include "image/drawn.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::image;

TEST(image_processor, patches_of_both_processors) {
  processor_settings settings;
  settings.max_pixels = 78400;
  const processor torchvision(settings);
  settings.resample = resampling::pillow;
  const processor pillow(settings);
  for (const auto& row : test::image_reference()["patches"]) {
    const pixels image = test::draw(row[0].get<test::drawing>(), row[1], row[2], row[3]);
    const patches got = torchvision(image), other = pillow(image);
    EXPECT_EQ(got.rows, row[4][1].get<std::int64_t>()) << row;
    EXPECT_EQ(got.columns, row[4][2].get<std::int64_t>()) << row;
    EXPECT_EQ(torchvision.tokens(got), got.rows * got.columns / 4);
    EXPECT_EQ(test::crc(got.values), row[5].get<std::uint32_t>()) << row;
    EXPECT_EQ(test::crc(other.values), row[6].get<std::uint32_t>()) << row;
  }
}

TEST(image_processor, black_and_white) {
  const auto values = normalised_values({}, resampling::torchvision);
  const float black[] = {-1.7922626f, -1.7520971f, -1.4802198f}, white[] = {1.9303361f, 2.0748837f, 2.145897f};
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_FLOAT_EQ(values[c][0], black[c]);
    EXPECT_FLOAT_EQ(values[c][255], white[c]);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
