// PNG decoding by libpng, and by libdeflate if available.
#pragma once

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "rlcore/image/header.hpp"
#include "rlcore/image/pixels.hpp"
#ifdef RLCORE_HAS_DEFLATE
#include <libdeflate.h>
#endif

RLCORE_BEGIN
#ifdef RLCORE_HAS_DEFLATE
namespace image::detail {

inline void put_big_endian(unsigned char* to, std::uint32_t number) noexcept {
  for (int shift = 24; shift >= 0; shift -= 8) *to++ = static_cast<unsigned char>(number >> shift);
}

/// Copies the PNG up to its data, then stores the data uncompressed in one chunk: libpng reads the same image with
/// nothing to inflate. The checksums of the chunks have been verified; the new chunk has none. Empty if the file is
/// interlaced or damaged: then libpng decodes it. Throws format_error if more than `surplus` bytes come behind the
/// image, which libpng would inflate to their end.
inline std::vector<unsigned char> inflate_png(encoded bytes, const png_header& header) {
  constexpr std::size_t frame = 12, block = 65535, most = 0x7fffffff;  // of a chunk; of a stored block; of any chunk
  constexpr std::size_t surplus = 65536;
  std::vector<unsigned char> data;
  std::size_t first = 0;
  for (std::size_t at = 8; bytes.size() - at >= frame;) {
    const std::size_t length = big_endian(bytes, at, 4);
    if (length > bytes.size() - at - frame ||
        libdeflate_crc32(0, bytes.data() + at + 4, length + 4) != big_endian(bytes, at + 8 + length, 4))
      return {};
    const bool is_data = is_chunk(bytes, at + 4, "IDAT");
    if (!is_data && first > 0) break;
    if (is_data && first == 0) first = at;
    const encoded body = bytes.subspan(at + 8, is_data ? length : 0);
    data.insert(data.end(), body.begin(), body.end());
    at += frame + length;
  }
  // Each of the seven images that an interlaced one consists of has its own filter bytes and roundings.
  const std::size_t size = header.filtered_bytes() + (header.interlaced ? std::size_t{16} * header.height + 64 : 0),
                    blocks = (size + block - 1) / block;
  const std::size_t stored = 2 + 5 * blocks + size + 4;
  // zlib enforces a window below 32 KiB, libdeflate does not.
  if (data.empty() || data[0] != 0x78 || stored > most) return {};
  std::vector<unsigned char> result(first + frame + stored + surplus);
  std::copy_n(bytes.data(), first, result.data());
  unsigned char* to = result.data() + first;
  put_big_endian(to, static_cast<std::uint32_t>(stored));
  std::memcpy(to + 4, "IDAT\x78\x01", 6);
  to += 10;
  const unsigned char* from = to + 5 * blocks;  // the blocks move forward to make room for their headers
  const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)> inflate(
      libdeflate_alloc_decompressor(), &libdeflate_free_decompressor);
  if (!inflate) return {};
  std::size_t inflated = 0;
  const libdeflate_result outcome =
      libdeflate_zlib_decompress(inflate.get(), data.data(), data.size(), to + 5 * blocks, size + surplus, &inflated);
  if (outcome == LIBDEFLATE_INSUFFICIENT_SPACE)
    throw format_error("a damaged PNG: its data go on behind the end of the image");
  if (outcome != LIBDEFLATE_SUCCESS || inflated < size || header.interlaced) return {};
  const std::uint32_t sum = libdeflate_adler32(1, from, size);
  for (std::size_t left = size; left > 0;) {
    const std::size_t count = std::min(left, block);
    left -= count;
    const unsigned char before[] = {static_cast<unsigned char>(left == 0), static_cast<unsigned char>(count),
                                    static_cast<unsigned char>(count >> 8), static_cast<unsigned char>(~count),
                                    static_cast<unsigned char>(~count >> 8)};
    std::memcpy(to, before, sizeof before);
    std::memmove(to + sizeof before, from, count);
    to += sizeof before + count, from += count;
  }
  put_big_endian(to, sum);
  result.resize(result.size() - surplus);
  return result;
}

}  // namespace image::detail

#endif

namespace image {

namespace detail {

/// libpng's input bytes and its error message.
struct png_source {
  const unsigned char* next;
  std::size_t left;
  bool checked;  ///< the checksums of the chunks are already verified
  char message[160];
};

inline void png_take(png_structp png, png_bytep to, std::size_t size) {
  auto& source = *static_cast<png_source*>(png_get_io_ptr(png));
  if (size > source.left) png_error(png, "the file ends too early");
  std::memcpy(to, source.next, size);
  source.next += size;
  source.left -= size;
}

inline void png_fail(png_structp png, png_const_charp message) {
  auto& source = *static_cast<png_source*>(png_get_error_ptr(png));
  std::snprintf(source.message, sizeof source.message, "%s", message);
  png_longjmp(png, 1);
}

/// Decodes into rows of 3 or 4 bytes for each pixel. False if libpng failed; the source then holds its message. No
/// object with a destructor lives here, since libpng leaves by longjmp.
inline bool read_png_rows(png_source& source, png_bytepp rows, bool with_alpha) {
  png_structp png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, png_fail, [](png_structp, png_const_charp) {});
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  if (info == nullptr) {
    png_destroy_read_struct(&png, nullptr, nullptr);
    std::snprintf(source.message, sizeof source.message, "no memory for libpng");
    return false;
  }
  if (setjmp(png_jmpbuf(png)) != 0) {
    png_destroy_read_struct(&png, &info, nullptr);
    return false;
  }
  png_set_read_fn(png, &source, png_take);
#ifdef PNG_HANDLE_AS_UNKNOWN_SUPPORTED
  // Texts, profiles and palettes that no pixel needs: libpng would inflate each to as much as 8 MB and keep it.
  static constexpr png_byte unread[] = "tEXt\0zTXt\0iTXt\0sPLT\0iCCP\0eXIf";
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, unread, sizeof unread / 5);
#endif
  if (source.checked) png_set_crc_action(png, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
  png_read_info(png, info);
  const int colours = png_get_color_type(png, info);
  if (colours == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (colours == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png, info) < 8) png_set_expand_gray_1_2_4_to_8(png);
  if ((colours & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(png);
  if (!with_alpha) png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  png_read_image(png, rows);
  png_destroy_read_struct(&png, &info, nullptr);
  return true;
}

}  // namespace detail

RLCORE_INLINE pixels decode_png(encoded bytes, const decode_settings& settings) {
  const png_header header = read_png_header(bytes, settings);
  // Deflate expands at most 1032:1, so a header that promises more does not match the file.
  if (header.filtered_bytes() / 1032 > bytes.size()) throw format_error("a damaged PNG: the file ends too early");
  const bool on_white = header.colours == PNG_COLOR_TYPE_RGBA && settings.opacity == alpha::white;
  const std::size_t row = std::size_t{header.width} * (on_white ? 4 : 3);
  pixels result{header.height, header.width, std::vector<std::uint8_t>(header.height * row)};
  std::vector<png_bytep> rows(header.height);
  for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = result.rgb.data() + y * row;
#ifdef RLCORE_HAS_DEFLATE
  const std::vector<unsigned char> inflated = detail::inflate_png(bytes, header);
  const bool checked = !inflated.empty();
  if (checked) bytes = inflated;
#else
  constexpr bool checked = false;
#endif
  detail::png_source source{bytes.data(), bytes.size(), checked, {}};
  if (!detail::read_png_rows(source, rows.data(), on_white))
    throw format_error(std::string("a damaged PNG: ") + source.message);
  if (on_white) result.rgb = detail::on_white(result.rgb);
  return result;
}

}  // namespace image
RLCORE_END
