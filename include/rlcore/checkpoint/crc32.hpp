// CRC-32 as in ZIP (ISO 3309, polynomial 0xEDB88320), eight bytes at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace checkpoint {

namespace detail {

constexpr std::array<std::array<std::uint32_t, 256>, 8> crc32_tables() {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) != 0 ? 0xEDB88320u : 0u);
    tables[0][i] = c;
  }
  for (std::size_t t = 1; t < 8; ++t)
    for (std::size_t i = 0; i < 256; ++i) tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xFF];
  return tables;
}
inline constexpr auto crc32_table = crc32_tables();

}  // namespace detail

/// The checksum of what `before` is the checksum of (0: nothing), followed by `bytes`.
inline std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept {
  const auto& table = detail::crc32_table;
  std::uint32_t c = ~before;
  std::size_t i = 0;
  const auto byte = [&](std::size_t at) { return std::to_integer<std::uint32_t>(bytes[i + at]); };
  for (; i + 8 <= bytes.size(); i += 8) {
    c ^= byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
    c = table[7][c & 0xFF] ^ table[6][c >> 8 & 0xFF] ^ table[5][c >> 16 & 0xFF] ^ table[4][c >> 24] ^
        table[3][byte(4)] ^ table[2][byte(5)] ^ table[1][byte(6)] ^ table[0][byte(7)];
  }
  for (; i < bytes.size(); ++i) c = (c >> 8) ^ table[0][(c ^ byte(0)) & 0xFF];
  return ~c;
}

}  // namespace checkpoint
RLCORE_END
