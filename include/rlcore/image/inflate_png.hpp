// PNG inflation by libdeflate, which is faster than zlib.
#pragma once

#include <libdeflate.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "rlcore/image/header.hpp"
#include "rlcore/image/pixels.hpp"

RLCORE_BEGIN
namespace image::detail {

inline void put_big_endian(unsigned char* to, std::uint32_t number) noexcept {
  for (int shift = 24; shift >= 0; shift -= 8) *to++ = static_cast<unsigned char>(number >> shift);
}

/// Copies the PNG up to its data, then stores the data uncompressed in one chunk: libpng reads the same image with
/// nothing to inflate. The checksums of the chunks have been verified; the new chunk has none. Empty if the file is
/// interlaced or damaged: then libpng decodes it.
inline std::vector<unsigned char> inflate_png(encoded bytes, const png_header& header) {
  constexpr std::size_t frame = 12, block = 65535, most = 0x7fffffff;  // of a chunk; of a stored block; of any chunk
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
  const std::size_t size = header.filtered_bytes(), blocks = (size + block - 1) / block;
  const std::size_t stored = 2 + 5 * blocks + size + 4;
  // zlib enforces a window below 32 KiB, libdeflate does not.
  if (header.interlaced || data.empty() || data[0] != 0x78 || stored > most) return {};
  std::vector<unsigned char> result(first + frame + stored);
  std::copy_n(bytes.data(), first, result.data());
  unsigned char* to = result.data() + first;
  put_big_endian(to, static_cast<std::uint32_t>(stored));
  std::memcpy(to + 4, "IDAT\x78\x01", 6);
  to += 10;
  const unsigned char* from = to + 5 * blocks;  // the blocks move forward to make room for their headers
  const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)> inflate(
      libdeflate_alloc_decompressor(), &libdeflate_free_decompressor);
  if (!inflate || libdeflate_zlib_decompress(inflate.get(), data.data(), data.size(), to + 5 * blocks, size, nullptr) !=
                      LIBDEFLATE_SUCCESS)
    return {};
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
  return result;
}

}  // namespace image::detail
RLCORE_END
