// PNG, JPEG and WebP files of every kind against Pillow's pixels (reference/image.py), and files that are no good.
#include "rlcore/image/decode.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "image/drawn.hpp"
#include "rlcore/image/encode.hpp"
#include "support/cpu_time.hpp"

namespace RLCORE_TEST_ID {

#ifdef RLCORE_HAS_IMAGES

namespace {

using namespace rlcore;
using namespace rlcore::image;
using testing::HasSubstr;
using bytes = std::vector<unsigned char>;

bytes from_base64(const std::string& text) {
  bytes result;
  unsigned bits = 0, count = 0;
  for (const char c : text) {
    static const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::size_t digit = alphabet.find(c);
    if (digit == std::string::npos) break;
    bits = bits << 6 | static_cast<unsigned>(digit);
    if ((count += 6) >= 8) result.push_back(static_cast<unsigned char>(bits >> (count -= 8)));
  }
  return result;
}

bytes file(const std::string& name) {
  for (const auto& row : test::image_reference()["files"])
    if (row[0] == name) return from_base64(row[1]);
  ADD_FAILURE() << "no file " << name;
  return {};
}

std::string refusal(const bytes& content, const decode_settings& settings = {}) {
  try {
    decode(content, settings);
  } catch (const format_error& e) {
    return e.what();
  }
  return "decoded";
}

/// What Pillow reads and rlcore does not.
const std::map<std::string, std::string> refused = {
    {"cmyk.jpeg", "a JPEG of 4 colour channels (CMYK?); convert it to RGB"},
    {"deep_grey.png", "a PNG of 16 bits a channel; convert it to 8 bits"},
    {"animated.png", "an animated PNG; expected one image"},
    {"picture.gif", std::string("GIF; expected ") + known_formats},
    {"picture.bmp", std::string("BMP; expected ") + known_formats},
    {"picture.tiff", std::string("TIFF; expected ") + known_formats},
    {"animated.webp", "an animated WebP; expected one image"},
    {"cut.webp", "a damaged WebP"},
    {"cut.png", "a damaged PNG: the file ends too early"},
    {"cut.jpeg", "a damaged JPEG: Premature end of JPEG file"}};

TEST(decode_image, the_pixels_of_pillow) {
  for (const auto& row : test::image_reference()["files"]) {
    const std::string name = row[0];
    const bytes content = from_base64(row[1]);
    if (!has_webp && name.ends_with(".webp")) {
      EXPECT_EQ(refusal(content), "WebP; expected PNG or JPEG, or a build with libwebp-dev") << name;
      continue;
    }
    if (const auto found = refused.find(name); found != refused.end()) {
      EXPECT_EQ(refusal(content), found->second) << name;
      continue;
    }
    const pixels image = decode(content, {.opacity = alpha::drop}), white = decode(content);
    EXPECT_EQ(image.height, row[2][0].get<std::size_t>()) << name;
    EXPECT_EQ(image.width, row[2][1].get<std::size_t>()) << name;
    EXPECT_EQ(test::crc(image.rgb), row[2][2].get<std::uint32_t>()) << name;
    EXPECT_EQ(test::crc(white.rgb), row[2][3].get<std::uint32_t>()) << name;
  }
}

TEST(decode_image, files_cut_at_any_byte_and_files_with_any_byte_changed_end_in_pixels_or_a_sentence) {
  for (const char* name :
       {"rgba.png", "palette_4.png", "interlaced.png", "420.jpeg", "progressive.jpeg", "rgba.webp", "lossless.webp"}) {
    const bytes whole = file(name);
    for (std::size_t size = 0; size < whole.size(); ++size)
      EXPECT_NE(refusal(bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))), "") << name << size;
    for (std::size_t i = 0; i < whole.size(); ++i)
      for (const int flip : {0x01, 0x80, 0xff}) {
        bytes changed = whole;
        changed[i] = static_cast<unsigned char>(changed[i] ^ flip);
        const std::string told = refusal(changed, {.max_pixels = 1'000'000});
        EXPECT_EQ(told.find('\n'), std::string::npos) << name << i;
        EXPECT_FALSE(told.empty()) << name << i;
      }
  }
}

TEST(decode_image, a_bomb_is_refused_by_its_header) {
  bytes png = file("rgb.png");
  for (const std::size_t at : {16U, 20U}) {  // width and height of IHDR: 65536 x 65536
    const unsigned char large[] = {0, 1, 0, 0};
    std::copy_n(large, 4, png.begin() + static_cast<std::ptrdiff_t>(at));
  }
  EXPECT_EQ(refusal(png), "an image of 65536 x 65536 pixels; at most 89478485 are decoded");
  // Within the limit, but more than so few bytes can hold.
  EXPECT_EQ(refusal(png, {.max_pixels = 1ull << 40}), "a damaged PNG: the file ends too early");

  bytes jpeg = file("444.jpeg");
  const unsigned char frame[] = {0xff, 0xc0};
  const auto at = std::search(jpeg.begin(), jpeg.end(), std::begin(frame), std::end(frame));
  ASSERT_NE(at, jpeg.end());
  std::fill_n(at + 5, 4, static_cast<unsigned char>(0x7f));
  EXPECT_EQ(refusal(jpeg), "an image of 32639 x 32639 pixels; at most 89478485 are decoded");
  if (!has_webp) return;
  bytes webp = file("lossless.webp");  // RIFF, VP8L, a byte, then 14 bits each of width - 1 and height - 1
  ASSERT_EQ(std::string(webp.begin() + 12, webp.begin() + 16), "VP8L");
  std::fill_n(webp.begin() + 21, 3, static_cast<unsigned char>(0xff));
  webp[24] = static_cast<unsigned char>(webp[24] | 0x0f);
  EXPECT_EQ(refusal(webp), "an image of 16384 x 16384 pixels; at most 89478485 are decoded");
}

/// CRC-32, as a chunk ends with it.
std::uint32_t checksum(const bytes& of) {
  std::uint32_t sum = ~0u;
  for (const unsigned char byte : of) {
    sum ^= byte;
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0u);
  }
  return ~sum;
}

#ifdef RLCORE_HAS_DEFLATE
TEST(decode_image, data_behind_the_end_of_a_png_are_not_inflated) {
  const bytes blank = encode_png({2600, 10000, std::vector<std::uint8_t>(2600 * 10000 * 3)});
  for (const bool interlaced : {false, true}) {
    bytes png = blank;
    for (const std::size_t at : {16u, 20u}) png[at] = png[at + 1] = png[at + 2] = 0, png[at + 3] = 10;
    png[28] = interlaced ? 1 : 0;
    const std::uint32_t sum = checksum({png.begin() + 12, png.begin() + 29});
    for (std::size_t i = 0; i < 4; ++i) png[29 + i] = static_cast<unsigned char>(sum >> (24 - 8 * i));
    EXPECT_EQ(refusal(png), "a damaged PNG: its data go on behind the end of the image");
  }
}
#endif

TEST(decode_image, texts_in_a_png_are_not_inflated) {
  // The data of an empty image are the compressed text of as many chunks as libpng keeps.
  const bytes blank = encode_png({2600, 1000, std::vector<std::uint8_t>(2600 * 1000 * 3)});
  bytes text{'z', 'T', 'X', 't', 'k', 0, 0};
  for (std::size_t at = 8; at + 12 <= blank.size();) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length = length << 8 | blank[at + i];
    const auto begin = blank.begin() + static_cast<std::ptrdiff_t>(at + 8);
    if (std::string(begin - 4, begin) == "IDAT")
      text.insert(text.end(), begin, begin + static_cast<std::ptrdiff_t>(length));
    at += 12 + length;
  }
  const auto number = [](bytes& to, std::size_t x) {
    for (int shift = 24; shift >= 0; shift -= 8) to.push_back(static_cast<unsigned char>(x >> shift));
  };
  bytes chunk;
  number(chunk, text.size() - 4);
  chunk.insert(chunk.end(), text.begin(), text.end());
  number(chunk, checksum(text));
  const bytes plain = file("rgb.png");
  bytes png(plain.begin(), plain.begin() + 33);  // up to the end of IHDR
  for (int i = 0; i < 500; ++i) png.insert(png.end(), chunk.begin(), chunk.end());
  png.insert(png.end(), plain.begin() + 33, plain.end());
  const double began = cpu_seconds();
  EXPECT_EQ(decode(png).rgb, decode(plain).rgb);
  EXPECT_LT(cpu_seconds() - began, 2);  // 4 GB of text would take longer
}

TEST(decode_image, nothing_and_text_are_no_images) {
  const std::string nothing = std::string("no image; expected ") + known_formats;
  EXPECT_EQ(refusal({}), nothing);
  EXPECT_EQ(refusal({'h', 'e', 'l', 'l', 'o'}), nothing);
}

}  // namespace

#endif

}  // namespace RLCORE_TEST_ID
