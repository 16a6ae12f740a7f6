// PNG files that we write are read back as they were.
#include "rlcore/image/encode.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/image/decode.hpp"

namespace RLCORE_TEST_ID {

#ifdef RLCORE_HAS_IMAGES

namespace {

using namespace rlcore;

TEST(encode_png, is_read_back_to_the_pixel) {
  std::mt19937 random(5);
  for (const auto& [height, width] : {std::pair<std::size_t, std::size_t>{1, 1}, {1, 300}, {84, 84}, {7, 513}}) {
    image::pixels image{height, width, std::vector<std::uint8_t>(height * width * 3)};
    for (auto& c : image.rgb) c = static_cast<std::uint8_t>(random());
    const std::vector<unsigned char> bytes = image::encode_png(image);
    EXPECT_EQ(image::format_of(bytes), "PNG");
    EXPECT_EQ(image::decode(bytes), image);
  }
}

TEST(encode_png, refuses_an_image_without_pixels) {
  try {
    (void)image::encode_png({0, 5, {}});
    FAIL();
  } catch (const format_error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("no PNG has 5 x 0 pixels"));
  }
}

}  // namespace

#endif

}  // namespace RLCORE_TEST_ID
