// The element types of GGUF files: blocks to floats and back.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/dtype.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/gguf/gguf_file.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// The entry of text::gguf_blocks with this name, such as "Q8_0". Throws std::invalid_argument for another.
const text::gguf_block& gguf_block_of(std::string_view name);

/// Fills `values` from whole blocks, to the bit as the Python package gguf does. `blocks` has the bytes of
/// values.size() elements. Throws std::invalid_argument for other sizes, format_error for a type that is not readable.
void read_gguf_blocks(const text::gguf_block& type, std::span<const std::byte> blocks, std::span<float> values);

/// The blocks of F32, F16, BF16 or Q8_0, to the bit as the Python package gguf makes them. Throws std::invalid_argument
/// for other types and for sizes that do not fit.
void write_gguf_blocks(const text::gguf_block& type, std::span<const float> values, std::span<std::byte> blocks);

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint {
namespace detail {

/// The bytes of a block.
class block_bytes {
 public:
  explicit block_bytes(const std::byte* at) noexcept : at_(at) {}
  std::uint32_t operator[](std::size_t i) const noexcept { return std::to_integer<std::uint32_t>(at_[i]); }
  float half(std::size_t i) const noexcept {
    f16 x;
    std::memcpy(&x.bits, at_ + i, 2);
    return x;
  }
  std::uint32_t word(std::size_t i) const noexcept {
    std::uint32_t x;
    std::memcpy(&x, at_ + i, 4);
    return x;
  }

 private:
  const std::byte* at_;
};

inline void read_q8_0(block_bytes b, float* y) {
  const float d = b.half(0);
  for (std::size_t i = 0; i < 32; ++i) y[i] = static_cast<float>(static_cast<std::int8_t>(b[2 + i])) * d;
}

/// Q4_0, Q4_1, Q5_0 and Q5_1: 16 bytes of two times four bits, before them 32 fifth bits, a least value and a scale.
template <bool Fifth, bool Least>
void read_q45(block_bytes b, float* y) {
  constexpr std::size_t high = Least ? 4 : 2, low = high + (Fifth ? 4 : 0);
  const float d = b.half(0), least = Least ? b.half(2) : 0;
  const std::uint32_t fifth = Fifth ? b.word(high) : 0;
  for (std::uint32_t i = 0; i < 32; ++i) {
    const std::uint32_t nibble = i < 16 ? b[low + i] & 15U : b[low + i - 16] >> 4U;
    const auto q = static_cast<std::int32_t>(nibble | ((fifth >> i & 1U) << 4U));
    if constexpr (Least)
      y[i] = d * static_cast<float>(q) + least;
    else
      y[i] = d * static_cast<float>(q - (Fifth ? 16 : 8));
  }
}

/// The scale and the minimum of 32 elements of Q4_K and Q5_K: eight of each, six bits long, in twelve bytes.
struct k_scale {
  float scale, least;
  k_scale(block_bytes b, std::size_t i) {
    const auto at = [&](std::size_t k) { return b[4 + k]; };
    const std::uint32_t d = i < 4 ? at(i) & 63U : (at(i + 4) & 15U) | (at(i - 4) >> 2U & 48U);
    const std::uint32_t m = i < 4 ? at(i + 4) & 63U : at(i + 4) >> 4U | (at(i) >> 2U & 48U);
    scale = b.half(0) * static_cast<float>(d);
    least = b.half(2) * static_cast<float>(m);
  }
};

template <bool Fifth>
void read_q45_k(block_bytes b, float* y) {
  constexpr std::size_t high = 16, low = high + (Fifth ? 32 : 0);
  for (std::size_t part = 0; part < 8; ++part) {
    const k_scale s(b, part);
    for (std::size_t i = 0; i < 32; ++i) {
      const std::uint32_t byte = b[low + part / 2 * 32 + i];
      std::uint32_t q = part % 2 == 0 ? byte & 15U : byte >> 4U;
      if constexpr (Fifth) q |= (b[high + i] >> part & 1U) << 4U;
      y[32 * part + i] = s.scale * static_cast<float>(q) - s.least;
    }
  }
}

inline void read_q6_k(block_bytes b, float* y) {
  constexpr std::size_t high = 128, scales = 192, d = 208;
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t half = i / 128, row = i % 128 / 32, column = i % 32;
    const std::uint32_t byte = b[64 * half + 32 * (row % 2) + column];
    const std::uint32_t low = row < 2 ? byte & 15U : byte >> 4U;
    const std::uint32_t upper = b[high + 32 * half + column] >> (2 * row) & 3U;
    const auto q = static_cast<std::int32_t>(low | upper << 4U) - 32;
    const float scale = b.half(d) * static_cast<float>(static_cast<std::int8_t>(b[scales + i / 16]));
    y[i] = scale * static_cast<float>(q);
  }
}

/// The scale is the largest magnitude / 127; numbers are rounded half away from zero.
inline void write_q8_0(const float* x, std::byte* out) {
  float largest = 0;
  for (std::size_t i = 0; i < 32; ++i) largest = std::max(largest, std::abs(x[i]));
  const float d = largest / 127, inverse = d == 0 ? 0 : 1 / d;
  const f16 scale(d);
  std::memcpy(out, &scale.bits, 2);
  for (std::size_t i = 0; i < 32; ++i) {
    const float scaled = x[i] * inverse, a = std::abs(scaled), whole = std::floor(a);
    const float rounded = std::isfinite(a) ? whole + std::floor(2 * (a - whole)) : 0;
    out[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(scaled < 0 ? -rounded : rounded));
  }
}

template <class Read>
void read_each(const text::gguf_block& type, std::span<const std::byte> blocks, std::span<float> values, Read&& read) {
  for (std::size_t i = 0, n = values.size() / type.elements; i < n; ++i)
    read(block_bytes(blocks.data() + i * type.bytes), values.data() + i * type.elements);
}

template <class Half>
void read_halves(std::span<const std::byte> blocks, std::span<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    Half x;
    std::memcpy(&x.bits, blocks.data() + 2 * i, 2);
    values[i] = x;
  }
}

template <class Half>
void write_halves(std::span<const float> values, std::span<std::byte> blocks) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Half x(values[i]);
    std::memcpy(blocks.data() + 2 * i, &x.bits, 2);
  }
}

inline void check_blocks(const text::gguf_block& type, std::size_t elements, std::size_t bytes) {
  require(elements % type.elements == 0 && bytes == elements / type.elements * type.bytes,
          "gguf blocks: the bytes do not fit the elements");
}

}  // namespace detail

RLCORE_INLINE const text::gguf_block& gguf_block_of(std::string_view name) {
  const auto at = std::find_if(std::begin(text::gguf_blocks), std::end(text::gguf_blocks),
                               [&](const text::gguf_block& b) { return b.name == name; });
  require(at != std::end(text::gguf_blocks), "gguf_block_of: an unknown name");
  return *at;
}

RLCORE_INLINE void read_gguf_blocks(const text::gguf_block& type, std::span<const std::byte> blocks,
                                    std::span<float> values) {
  using namespace detail;
  check_blocks(type, values.size(), blocks.size());
  if (type.name == "F32") return static_cast<void>(std::memcpy(values.data(), blocks.data(), blocks.size()));
  if (type.name == "F16") return read_halves<f16>(blocks, values);
  if (type.name == "BF16") return read_halves<bf16>(blocks, values);
  if (type.name == "Q8_0") return read_each(type, blocks, values, read_q8_0);
  if (type.name == "Q4_0") return read_each(type, blocks, values, read_q45<false, false>);
  if (type.name == "Q4_1") return read_each(type, blocks, values, read_q45<false, true>);
  if (type.name == "Q5_0") return read_each(type, blocks, values, read_q45<true, false>);
  if (type.name == "Q5_1") return read_each(type, blocks, values, read_q45<true, true>);
  if (type.name == "Q4_K") return read_each(type, blocks, values, read_q45_k<false>);
  if (type.name == "Q5_K") return read_each(type, blocks, values, read_q45_k<true>);
  if (type.name == "Q6_K") return read_each(type, blocks, values, read_q6_k);
  throw format_error("blocks of type " + std::string(type.name) + " are not read");
}

RLCORE_INLINE void write_gguf_blocks(const text::gguf_block& type, std::span<const float> values,
                                     std::span<std::byte> blocks) {
  detail::check_blocks(type, values.size(), blocks.size());
  if (type.name == "F32") return static_cast<void>(std::memcpy(blocks.data(), values.data(), blocks.size()));
  if (type.name == "F16") return detail::write_halves<f16>(values, blocks);
  if (type.name == "BF16") return detail::write_halves<bf16>(values, blocks);
  require(type.name == "Q8_0", "write_gguf_blocks: expected F32, F16, BF16 or Q8_0");
  for (std::size_t i = 0, n = values.size() / 32; i < n; ++i)
    detail::write_q8_0(values.data() + 32 * i, blocks.data() + type.bytes * i);
}

}  // namespace checkpoint
RLCORE_END
#endif
