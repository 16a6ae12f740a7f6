// Sixty-four tokens of a row at a time, in double, and a bit for each that says whether it is live.
//
// All arithmetic of advantages goes over whole blocks whose first token is a multiple of 64 of the row, so its bits
// depend on the row alone: not on strides, on the element type of the mask, on padding or on neighbouring rows.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include "rlcore/objective/loop/batch.hpp"
#include "rlcore/simd/pack.hpp"
#include "rlcore/tensor/span.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace detail {

inline void check_shape(const char* name, const extents<2>& is, const char* model, const extents<2>& expected) {
  if (is != expected)
    throw std::invalid_argument("rlcore: " + std::string(name) + " are " + to_string(is) + ", " + model + " are " +
                                to_string(expected));
}
inline void check_mask_shape(const token_mask& mask, const char* model, const extents<2>& expected) {
  if (mask.present() && (!mask.matrix || mask.shape != expected))
    throw std::invalid_argument("rlcore: the mask is " +
                                (mask.matrix ? to_string(mask.shape) : to_string<1>({mask.shape[0]})) + ", " + model +
                                " are " + to_string(expected));
}
inline void check_per_row(const char* name, extent_t is, const char* model, const extents<2>& matrix) {
  if (is != matrix[0])
    throw std::invalid_argument("rlcore: " + std::string(name) + " are " + to_string<1>({is}) + ", " + model + " are " +
                                to_string(matrix));
}

}  // namespace detail
namespace token_block {

inline constexpr std::size_t tokens = 64;
inline constexpr std::uint64_t all_live = ~std::uint64_t{0};

/// Eight doubles, added in the same order on every machine.
struct eight {
  static constexpr std::size_t lanes = pack<double>::lanes, parts = 8 / lanes;
  pack<double> part[parts];

  RLCORE_FN static eight load(const double* from) noexcept {
    eight e;
    for (std::size_t i = 0; i < parts; ++i) e.part[i] = rlcore::load(from + i * lanes);
    return e;
  }
  RLCORE_FN static eight of(double x) noexcept {
    eight e;
    for (std::size_t i = 0; i < parts; ++i) e.part[i] = pack<double>(x);
    return e;
  }
  RLCORE_FN void store(double* to) const noexcept {
    for (std::size_t i = 0; i < parts; ++i) rlcore::store(to + i * lanes, part[i]);
  }
  RLCORE_FN double total() const noexcept {
    double lane[8];
    store(lane);
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
  }
};

/// f(e...) part by part.
template <class F, class... Eight>
RLCORE_FN eight each(F f, const Eight&... e) noexcept {
  eight result;
  for (std::size_t i = 0; i < eight::parts; ++i) result.part[i] = f(e.part[i]...);
  return result;
}

/// Bit k: element k of the mask is not zero (`sign` is the bit that -0.0 may have).
template <class Word>
std::uint64_t bits_of(const std::byte* first, extent_t stride, std::size_t count, Word value_bits) noexcept {
  const auto at = [&](std::size_t k) {
    Word w;
    std::memcpy(&w, first + static_cast<extent_t>(k) * stride * static_cast<extent_t>(sizeof(Word)), sizeof(Word));
    return static_cast<Word>(w & value_bits);
  };
  if (count == tokens && stride == 1) {
    Word block[tokens];
    std::memcpy(block, first, sizeof(block));
    Word live = 0;
    for (std::size_t k = 0; k < tokens; ++k)
      live = static_cast<Word>(live + static_cast<Word>((block[k] & value_bits) != 0));
    if (live == tokens) return all_live;
    if (live == 0) return 0;
  }
  std::uint64_t bits = 0;
  for (std::size_t k = 0; k < count; ++k) bits |= std::uint64_t{at(k) != 0} << k;
  return bits;
}

/// The live tokens among [first, first + count) of a row, bit 0 for the first.
inline std::uint64_t live_bits(const token_mask& mask, extent_t row, extent_t first, std::size_t count) noexcept {
  if (!mask.present()) return count == tokens ? all_live : (std::uint64_t{1} << count) - 1;
  const std::byte* at = mask.data + (row * mask.stride[0] + first * mask.stride[1]) * static_cast<extent_t>(mask.bytes);
  const extent_t stride = mask.stride[1];
  switch (mask.bytes) {
    case 1:
      return bits_of<std::uint8_t>(at, stride, count, 0xff);
    case 2:
      return bits_of<std::uint16_t>(at, stride, count, 0xffff);
    case 4:
      return bits_of<std::uint32_t>(at, stride, count, mask.floating ? 0x7fffffffu : 0xffffffffu);
    default:
      return bits_of<std::uint64_t>(at, stride, count, mask.floating ? all_live >> 1 : all_live);
  }
}

RLCORE_FN bool is_live(std::uint64_t bits, std::size_t k) noexcept { return (bits >> k & 1u) != 0; }

/// A block of one row of a matrix: pointer to its first token, and how many of the 64 exist.
template <class T>
struct block_of {
  T* data;
  extent_t stride;
  std::size_t count;

  block_of(const matrix_view<T>& v, extent_t row, extent_t first) noexcept
      : data(v.row(row) + first * v.stride[1]),
        stride(v.stride[1]),
        count(v.shape[1] - first < static_cast<extent_t>(tokens) ? static_cast<std::size_t>(v.shape[1] - first)
                                                                 : tokens) {}

  RLCORE_FN T& operator[](std::size_t k) const noexcept { return data[static_cast<extent_t>(k) * stride]; }

  /// All 64 tokens, all of them live.
  RLCORE_FN void read_all(double* to) const noexcept {
    if (stride == 1)
      for (std::size_t k = 0; k < tokens; ++k) to[k] = static_cast<double>(data[k]);
    else
      for (std::size_t k = 0; k < tokens; ++k) to[k] = static_cast<double>((*this)[k]);
  }
  /// The live tokens one after the other; returns how many there are.
  std::size_t read_live(std::uint64_t bits, double* to) const noexcept {
    std::size_t n = 0;
    for (; bits != 0; bits &= bits - 1)
      to[n++] = static_cast<double>((*this)[static_cast<std::size_t>(std::countr_zero(bits))]);
    return n;
  }
  RLCORE_FN void write_all(const double* from) const noexcept {
    if (stride == 1)
      for (std::size_t k = 0; k < tokens; ++k) data[k] = static_cast<T>(from[k]);
    else
      for (std::size_t k = 0; k < tokens; ++k) (*this)[k] = static_cast<T>(from[k]);
  }
  void write_zeros() const noexcept {
    for (std::size_t k = 0; k < count; ++k) (*this)[k] = T(0);
  }
};

}  // namespace token_block

RLCORE_ALGORITHM_END
RLCORE_END
