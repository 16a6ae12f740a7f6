// Image format and size from the file header, without decoding pixels; needs a library only for WebP.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "rlcore/core/error.hpp"
#include "rlcore/image/pixels.hpp"

RLCORE_BEGIN
namespace image {

#ifdef RLCORE_HAS_IMAGES
inline constexpr bool has_images = true;
#else
inline constexpr bool has_images = false;
#endif

inline constexpr const char* no_images_message =
    "this build reads no images; install libpng-dev and libjpeg-dev and build again";

#ifdef RLCORE_HAS_WEBP
inline constexpr bool has_webp = true;
#else
inline constexpr bool has_webp = false;
#endif
/// The formats that this build reads, for messages.
inline constexpr const char* known_formats = has_webp ? "PNG, JPEG or WebP" : "PNG or JPEG";

/// The format by the first bytes: "PNG", "JPEG", "GIF", "WebP", "BMP", "TIFF", "AVIF or HEIC", or "" for any other.
inline std::string format_of(encoded bytes) {
  const auto starts = [&](std::string_view signature, std::size_t at = 0) {
    if (bytes.size() < at + signature.size()) return false;
    for (std::size_t i = 0; i < signature.size(); ++i)
      if (bytes[at + i] != static_cast<unsigned char>(signature[i])) return false;
    return true;
  };
  if (starts("\x89PNG\r\n\x1a\n")) return "PNG";
  if (starts("\xff\xd8\xff")) return "JPEG";
  if (starts("GIF8")) return "GIF";
  if (starts("RIFF") && starts("WEBP", 8)) return "WebP";
  if (starts("BM")) return "BMP";
  if (starts("II*") || starts({"MM\0*", 4})) return "TIFF";
  if (starts("ftyp", 4)) return "AVIF or HEIC";
  return "";
}

/// The header of a PNG.
struct png_header {
  std::uint32_t width = 0, height = 0;
  int bits = 0, colours = 0;
  bool interlaced = false;

  /// Bytes of the filtered rows before compression, each with its filter byte; an interlaced image has somewhat more.
  std::uint64_t filtered_bytes() const noexcept {
    const std::uint64_t channels = colours == 2 ? 3 : colours == 4 ? 2 : colours == 6 ? 4 : 1;
    return height * (1 + (width * channels * static_cast<unsigned>(bits) + 7) / 8);
  }
};

namespace detail {

inline std::uint32_t big_endian(encoded bytes, std::size_t at, std::size_t count) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < count; ++i) number = number << 8 | bytes[at + i];
  return number;
}

inline bool is_chunk(encoded bytes, std::size_t at, std::string_view name) {
  for (std::size_t i = 0; i < name.size(); ++i)
    if (bytes[at + i] != static_cast<unsigned char>(name[i])) return false;
  return true;
}

/// Whether this marker starts a frame of a JPEG.
inline bool starts_frame(unsigned marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

}  // namespace detail

/// Reads the chunks of a PNG before its data. Throws format_error if the header is missing or decode_png() refuses it:
/// too many pixels, animation, 16 bits a channel.
inline png_header read_png_header(encoded bytes, const decode_settings& settings = {}) {
  constexpr std::size_t first = 8, header_end = first + 8 + 13 + 4;
  if (bytes.size() < header_end || !detail::is_chunk(bytes, first + 4, "IHDR"))
    throw format_error("a PNG without its header");
  const png_header header{detail::big_endian(bytes, first + 8, 4), detail::big_endian(bytes, first + 12, 4),
                          bytes[first + 16], bytes[first + 17], bytes[first + 20] != 0};
  check_size(header.height, header.width, settings);
  for (std::size_t at = header_end; at + 8 <= bytes.size() && !detail::is_chunk(bytes, at + 4, "IDAT");) {
    if (detail::is_chunk(bytes, at + 4, "acTL")) throw format_error("an animated PNG; expected one image");
    at += std::size_t{12} + detail::big_endian(bytes, at, 4);
  }
  if (header.bits == 16) throw format_error("a PNG of 16 bits a channel; convert it to 8 bits");
  return header;
}

/// The size of a JPEG: that of its first frame. Throws format_error if the file has no frame or decode_jpeg() refuses
/// it: too many pixels, CMYK, more than 8 bits, a lossless or hierarchical kind.
inline size read_jpeg_size(encoded bytes, const decode_settings& settings = {}) {
  const auto cut_off = [] { return format_error("a damaged JPEG: the file ends before its size"); };
  for (std::size_t at = 2;;) {
    while (at < bytes.size() && bytes[at] != 0xFF) ++at;  // skips bytes that are not a marker, as libjpeg does
    while (at < bytes.size() && bytes[at] == 0xFF) ++at;
    if (at >= bytes.size()) throw cut_off();
    const unsigned marker = bytes[at++];
    if (marker == 0 || marker == 1 || (marker >= 0xD0 && marker <= 0xD7)) continue;  // markers without a segment
    if (marker == 0xD8 || marker == 0xD9 || marker == 0xDA)
      throw format_error("a damaged JPEG: its data begin before its size");
    if (bytes.size() - at < 2) throw cut_off();
    const std::size_t length = detail::big_endian(bytes, at, 2);
    if (!detail::starts_frame(marker)) {
      const std::size_t segment = std::max<std::size_t>(length, 2);  // as in libjpeg: at least its length field
      if (bytes.size() - at < segment) throw cut_off();
      at += segment;
      continue;
    }
    if (length < 8 || bytes.size() - at < 8) throw cut_off();
    const bool known = marker <= 0xC2 || marker == 0xC9 || marker == 0xCA;
    if (!known) throw format_error("a JPEG of a lossless or hierarchical kind; convert it to an ordinary one");
    if (bytes[at + 2] != 8)
      throw format_error("a JPEG of " + std::to_string(bytes[at + 2]) + " bits a channel; convert it to 8 bits");
    const size found{detail::big_endian(bytes, at + 3, 2), detail::big_endian(bytes, at + 5, 2)};
    check_size(static_cast<std::uint64_t>(found.height), static_cast<std::uint64_t>(found.width), settings);
    if (bytes[at + 7] != 1 && bytes[at + 7] != 3)
      throw format_error("a JPEG of " + std::to_string(bytes[at + 7]) + " colour channels (CMYK?); convert it to RGB");
    return found;
  }
}

/// The size of a WebP. Throws format_error if the header is missing or decode_webp() refuses it: too many pixels,
/// animation. Only a build with libwebp has it.
size read_webp_size(encoded bytes, const decode_settings& settings = {});

/// The error for a file in an unsupported format.
inline format_error unknown_format(const std::string& format) {
  if (!has_webp && format == "WebP") return format_error("WebP; expected PNG or JPEG, or a build with libwebp-dev");
  return format_error((format.empty() ? "no image" : format) + "; expected " + known_formats);
}

/// The size in pixels from the header of an image. Throws format_error, without the file's name, for formats that
/// decode() does not support and for headers that it refuses.
inline size read_size(encoded bytes, const decode_settings& settings = {}) {
  const std::string format = format_of(bytes);
  if (format == "JPEG") return read_jpeg_size(bytes, settings);
  if constexpr (has_webp)
    if (format == "WebP") return read_webp_size(bytes, settings);
  if (format != "PNG") throw unknown_format(format);
  const png_header header = read_png_header(bytes, settings);
  return {header.height, header.width};
}

}  // namespace image
RLCORE_END

#if defined(RLCORE_HAS_WEBP) && !defined(RLCORE_COMPILED)
#include "rlcore/image/decode_webp.hpp"
#endif
