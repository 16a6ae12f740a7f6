// The sizes of images, to the bit, against torchvision and Pillow (reference/image.py) and by hand.
#include "rlcore/image/resample.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/drawn.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::image;
using testing::ElementsAre;

std::vector<int> row_of(const resampled_side& side, std::size_t i) {
  const auto begin = side.coefficients.begin() + static_cast<std::ptrdiff_t>(i * side.taps);
  return {begin, begin + static_cast<std::ptrdiff_t>(side.taps)};
}

TEST(resample, coefficients_of_torchvision) {
  const resampled_side wider = resample_side(4, 6, resampling::torchvision);
  EXPECT_EQ(wider.bits, 14);
  EXPECT_THAT(row_of(wider, 0), ElementsAre(17462, -1078, 0, 0));
  EXPECT_THAT(row_of(wider, 2), ElementsAre(-948, 15360, 2162, -190));
  const resampled_side narrower = resample_side(8, 3, resampling::torchvision);
  EXPECT_EQ(narrower.bits, 16);
  EXPECT_THAT(row_of(narrower, 1), ElementsAre(-1776, 930, 11444, 22169, 22169, 11444, 930, -1776));
}

TEST(resample, the_bytes_of_torchvision_and_of_pillow) {
  for (const auto& row : test::image_reference()["resize"]) {
    const pixels from = test::draw(row[0].get<test::drawing>(), row[1], row[2], row[3]);
    const size to{row[4], row[5]};
    EXPECT_EQ(test::crc(resize(from, to, resampling::torchvision).rgb), row[6].get<std::uint32_t>()) << row;
    EXPECT_EQ(test::crc(resize(from, to, resampling::pillow).rgb), row[7].get<std::uint32_t>()) << row;
  }
}

TEST(resample, the_same_size_is_the_same_image) {
  const pixels image = test::draw(test::drawing::noise, 3, 20, 31);
  EXPECT_EQ(resize(image, {20, 31}, resampling::torchvision), image);
}

TEST(resample, bytes_are_transposed) {
  for (const auto& [rows, columns] : {std::pair<std::size_t, std::size_t>{1, 7}, {16, 32}, {33, 50}, {64, 17}}) {
    std::vector<std::uint8_t> from(rows * columns);
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i * 37 + i / 256);
    const auto to = transpose(from, rows, columns);
    for (std::size_t y = 0; y < rows; ++y)
      for (std::size_t x = 0; x < columns; ++x) ASSERT_EQ(to[x * rows + y], from[y * columns + x]) << rows << columns;
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
