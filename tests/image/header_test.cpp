// Sizes by the header alone: those of Pillow's pixels (reference/image.py), and what is refused without pixels.
#include "rlcore/image/header.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "image/drawn.hpp"
#include "rlcore/image/decode.hpp"
#include "rlcore/image/processor.hpp"
#include "rlcore/text/base64.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::image;
using bytes = std::vector<unsigned char>;

bytes file(const std::string& name) {
  for (const auto& row : test::image_reference()["files"])
    if (row[0] == name) return text::from_base64(row[1].get<std::string>()).value();
  ADD_FAILURE() << "no file " << name;
  return {};
}
std::string refusal(const bytes& content) {
  try {
    read_size(content);
  } catch (const format_error& e) {
    return e.what();
  }
  return "read";
}

TEST(image_header, the_sizes_of_pillow) {
  std::size_t read = 0;
  for (const auto& row : test::image_reference()["files"]) {
    const std::string name = row[0];
    const bytes content = text::from_base64(row[1].get<std::string>()).value();
    if (row[2].is_null() || refusal(content) != "read") continue;
    EXPECT_EQ(read_size(content), (size{row[2][0].get<std::int64_t>(), row[2][1].get<std::int64_t>()})) << name;
    ++read;
  }
  EXPECT_GE(read, 27u);
}

TEST(image_header, says_what_no_header_allows) {
  EXPECT_EQ(refusal(file("cmyk.jpeg")), "a JPEG of 4 colour channels (CMYK?); convert it to RGB");
  EXPECT_EQ(refusal(file("deep_grey.png")), "a PNG of 16 bits a channel; convert it to 8 bits");
  EXPECT_EQ(refusal(file("animated.png")), "an animated PNG; expected one image");
  EXPECT_EQ(refusal(file("picture.tiff")), std::string("TIFF; expected ") + known_formats);
  EXPECT_EQ(refusal({}), std::string("no image; expected ") + known_formats);
  EXPECT_EQ(refusal(file("animated.webp")), has_webp ? "an animated WebP; expected one image"
                                                     : "WebP; expected PNG or JPEG, or a build with libwebp-dev");
  bytes jpeg = file("444.jpeg");
  const unsigned char frame[] = {0xff, 0xc0};
  const auto at = std::search(jpeg.begin(), jpeg.end(), std::begin(frame), std::end(frame));
  ASSERT_NE(at, jpeg.end());
  for (const auto& [kind, told] : {std::pair(0xc3,
                                             "a JPEG of a lossless or hierarchical kind; convert it to an "
                                             "ordinary one"),
                                   std::pair(0xd9, "a damaged JPEG: its data begin before its size")}) {
    at[1] = static_cast<unsigned char>(kind);
    EXPECT_EQ(refusal(jpeg), told);
  }
  at[1] = 0xc0, at[4] = 12;
  EXPECT_EQ(refusal(jpeg), "a JPEG of 12 bits a channel; convert it to 8 bits");
  jpeg.resize(static_cast<std::size_t>(at - jpeg.begin()) + 6);
  EXPECT_EQ(refusal(jpeg), "a damaged JPEG: the file ends before its size");
}

#ifdef RLCORE_HAS_IMAGES

/// Two ways to the size of a file: whoever decodes it finds what the header has told.
TEST(image_header, what_is_decoded_has_the_size_of_the_header) {
  std::size_t decoded = 0;
  for (const char* name :
       {"rgba.png", "palette_4.png", "interlaced.png", "420.jpeg", "progressive.jpeg", "rgba.webp", "lossless.webp"}) {
    const bytes whole = file(name);
    for (std::size_t i = 0; i < whole.size(); ++i)
      for (const int flip : {0x01, 0x10, 0xff}) {
        bytes changed = whole;
        changed[i] = static_cast<unsigned char>(changed[i] ^ flip);
        try {
          const pixels p = decode(changed, {.max_pixels = 1'000'000});
          EXPECT_EQ(read_size(changed), (size{std::int64_t(p.height), std::int64_t(p.width)})) << name << i;
          ++decoded;
        } catch (const format_error&) {  // not this test's business, unless read_size() threw it
          EXPECT_ANY_THROW(decode(changed, {.max_pixels = 1'000'000})) << name << i;
        }
      }
  }
  EXPECT_GT(decoded, 100u);
}

TEST(image_header, tokens_are_those_of_the_patches) {
  const processor_settings settings{.max_pixels = 40000};
  const processor process(settings);
  for (const char* name : {"rgba.png", "420.jpeg", "palette_4.png"}) {
    const bytes content = file(name);
    EXPECT_EQ(image::token_count(read_size(content), settings), process.tokens(process(content))) << name;
  }
}

#endif

}  // namespace
}  // namespace RLCORE_TEST_ID
