// CRC-32C (Castagnoli), as TensorFlow's record files use it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace trainer {

namespace detail {

/// Remainders of single bytes for the reflected polynomial 0x82f63b78.
inline constexpr std::array<std::uint32_t, 256> crc32c_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t x = byte;
    for (int bit = 0; bit < 8; ++bit) x = (x >> 1) ^ ((x & 1) != 0 ? 0x82f63b78u : 0u);
    table[byte] = x;
  }
  return table;
}();

}  // namespace detail

/// RFC 3720, B.4: "123456789" has 0xe3069283.
constexpr std::uint32_t crc32c(std::string_view bytes) noexcept {
  std::uint32_t x = ~0u;
  for (const char c : bytes) x = (x >> 8) ^ detail::crc32c_table[(x ^ static_cast<unsigned char>(c)) & 0xff];
  return ~x;
}

/// Record files store the checksum rotated and shifted, so that a checksum of data with checksums inside stays good.
constexpr std::uint32_t masked_crc32c(std::string_view bytes) noexcept {
  const std::uint32_t x = crc32c(bytes);
  return ((x >> 15) | (x << 17)) + 0xa282ead8u;
}

}  // namespace trainer
RLCORE_END
