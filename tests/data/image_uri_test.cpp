// Images for pages: small, and those that were there.
#include "rlcore/data/image_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace RLCORE_TEST_ID {

#ifdef RLCORE_HAS_IMAGES

namespace {

using namespace rlcore;

image::pixels of_size(std::size_t height, std::size_t width) {
  image::pixels p{height, width, std::vector<std::uint8_t>(height * width * 3)};
  for (std::size_t i = 0; i < p.rgb.size(); ++i) p.rgb[i] = static_cast<std::uint8_t>(i * 7);
  return p;
}
image::pixels read(const std::string& uri) {
  const auto bytes = text::from_base64(std::string_view(uri).substr(std::string(data::png_uri_begins).size()));
  return image::decode(bytes.value());
}

TEST(image_uri, keeps_small_images_and_scales_large_ones_down) {
  const image::pixels small = of_size(30, 240), large = of_size(100, 960), thin = of_size(2, 1000);
  EXPECT_EQ(read(data::image_uri(*data::make_image_file("a", image::encode_png(small), {}, {}))), small);
  const image::pixels seen = read(data::image_uri(*data::make_image_file("b", image::encode_png(large), {}, {})));
  EXPECT_EQ(seen, image::resize(large, {25, 240}, image::resampling::torchvision));
  EXPECT_EQ(read(data::image_uri(*data::make_image_file("c", image::encode_png(thin), {}, {}))).height, 1u);
}

TEST(image_uri, names_an_image_that_cannot_be_decoded) {
  std::vector<unsigned char> bytes = image::encode_png(of_size(30, 30));
  bytes.resize(bytes.size() / 2);
  const auto file = data::make_image_file("rows.jsonl: row 3: images[0]", bytes, {}, {});
  try {
    (void)data::image_uri(*file);
    FAIL();
  } catch (const data_error& e) {
    EXPECT_THAT(e.what(), testing::StartsWith("rows.jsonl: row 3: images[0]: a damaged PNG"));
  }
}

}  // namespace

#endif

}  // namespace RLCORE_TEST_ID
