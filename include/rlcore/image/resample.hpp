// Image resizing: antialiased bicubic in integers, bit-identical to Pillow and torchvision.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "rlcore/image/pixels.hpp"

RLCORE_BEGIN
namespace image {

/// The rounding mode: Pillow (up to 12.2; 13.0 may process the columns first) keeps 22 bits of a coefficient,
/// torchvision (uint8, bicubic, antialias) as many as let the largest fit 16 bits.
enum class resampling { torchvision, pillow };

/// Resampling weights of one side: value i is the sum of `coefficients[i * taps + j] * value[first[i] + j]`, rounded
/// and shifted by `bits`, clamped to 0...255. Rows of fewer taps end with zeros; first[i] + taps stays inside.
struct resampled_side {
  std::size_t taps = 0;
  int bits = 0;
  std::vector<std::size_t> first;
  std::vector<std::int32_t> coefficients;
};

namespace detail {

/// Keys' cubic with a = -1/2.
inline double cubic(double x) noexcept {
  constexpr double a = -0.5;
  x = x < 0 ? -x : x;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/// The bits of torchvision's coefficients: the maximum, up to 22, that keeps the largest below 2^15.
inline int bits_within_16(double largest) noexcept {
  int bits = 0;
  while (bits < 22 && static_cast<int>(0.5 + largest * static_cast<double>(std::int64_t{1} << (bits + 1))) < 1 << 15)
    ++bits;
  return bits;
}

}  // namespace detail

/// The coefficients that resample a side from `from` values to `to` values.
inline resampled_side resample_side(std::size_t from, std::size_t to, resampling as) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), filter = std::max(scale, 1.0),
               support = 2 * filter;
  resampled_side side;
  side.taps = std::min(from, 2 * static_cast<std::size_t>(std::ceil(support)) + 1);
  side.first.resize(to);
  std::vector<double> weights(to * side.taps);
  for (std::size_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first = static_cast<std::size_t>(std::max(centre - support + 0.5, 0.0));
    const auto last = std::min(static_cast<std::size_t>(centre + support + 0.5), from);
    // Near the end the row begins earlier, so that all rows have the same number of taps; the added taps have weight 0.
    side.first[i] = std::min(first, from - side.taps);
    double* const row = weights.data() + i * side.taps + (first - side.first[i]);
    double sum = 0;
    for (std::size_t j = 0; j < last - first; ++j)
      sum += row[j] = detail::cubic((static_cast<double>(j + first) - centre + 0.5) / filter);
    for (std::size_t j = 0; j < last - first; ++j) row[j] /= sum;
  }
  side.bits = as == resampling::pillow ? 22 : detail::bits_within_16(*std::ranges::max_element(weights));
  const double one = static_cast<double>(std::int64_t{1} << side.bits);
  side.coefficients.reserve(weights.size());
  for (const double weight : weights)
    side.coefficients.push_back(static_cast<std::int32_t>(weight < 0 ? weight * one - 0.5 : weight * one + 0.5));
  return side;
}

namespace detail {

/// Values that are computed together: a constant, so that compilers use vectors at any level of optimisation.
inline constexpr std::size_t run = 32;

/// One row of the result, values [at, at + Count). Coefficient is 16 bits wide if the values fit: half the work.
template <class Coefficient, std::size_t Count>
void blend_run(const std::uint8_t* rows, std::size_t stride, const Coefficient* coefficients, std::size_t taps,
               int bits, std::uint8_t* out) noexcept {
  std::int32_t sum[Count];
  for (std::size_t v = 0; v < Count; ++v) sum[v] = std::int32_t{1} << (bits - 1);
  for (std::size_t j = 0; j < taps; ++j) {
    const std::uint8_t* const row = rows + j * stride;
    for (std::size_t v = 0; v < Count; ++v)
      sum[v] +=
          static_cast<std::int32_t>(coefficients[j]) * static_cast<std::int32_t>(static_cast<Coefficient>(row[v]));
  }
  for (std::size_t v = 0; v < Count; ++v)
    out[v] = static_cast<std::uint8_t>(std::clamp(sum[v] >> bits, std::int32_t{0}, std::int32_t{255}));
}

template <class Coefficient>
pixels resample_height_as(const pixels& from, const resampled_side& side) {
  const std::size_t stride = 3 * from.width, height = side.first.size();
  pixels to{height, from.width, std::vector<std::uint8_t>(height * stride)};
  std::vector<Coefficient> coefficients(side.coefficients.begin(), side.coefficients.end());
  for (std::size_t y = 0; y < height; ++y) {
    const std::uint8_t* const rows = from.rgb.data() + side.first[y] * stride;
    const Coefficient* const row = coefficients.data() + y * side.taps;
    std::uint8_t* const out = to.rgb.data() + y * stride;
    std::size_t at = 0;
    for (; at + run <= stride; at += run)
      blend_run<Coefficient, run>(rows + at, stride, row, side.taps, side.bits, out + at);
    for (; at < stride; ++at) blend_run<Coefficient, 1>(rows + at, stride, row, side.taps, side.bits, out + at);
  }
  return to;
}

}  // namespace detail

/// Resizes the height of an image.
inline pixels resample_height(const pixels& from, std::size_t height, resampling as) {
  const resampled_side side = resample_side(from.height, height, as);
  return as == resampling::torchvision ? detail::resample_height_as<std::int16_t>(from, side)
                                       : detail::resample_height_as<std::int32_t>(from, side);
}

namespace detail {

typedef std::uint8_t bytes16 __attribute__((vector_size(16)));

/// 16 x 16 bytes from rows that begin `from_row` bytes apart to columns that begin `to_row` bytes apart.
inline void transpose_tile(const std::uint8_t* from, std::size_t from_row, std::uint8_t* to,
                           std::size_t to_row) noexcept {
  bytes16 rows[16], mixed[16];
  for (std::size_t i = 0; i < 16; ++i) std::memcpy(&rows[i], from + i * from_row, 16);
  // Rows of the second half between those of the first, byte by byte: four times that is rows as columns.
  const auto mix = [](const bytes16* in, bytes16* out) {
    for (std::size_t i = 0; i < 8; ++i) {
      out[2 * i] = __builtin_shufflevector(in[i], in[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      out[2 * i + 1] =
          __builtin_shufflevector(in[i], in[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
  };
  mix(rows, mixed), mix(mixed, rows), mix(rows, mixed), mix(mixed, rows);
  for (std::size_t i = 0; i < 16; ++i) std::memcpy(to + i * to_row, &rows[i], 16);
}

}  // namespace detail

/// Bytes [rows, columns] as [columns, rows].
inline std::vector<std::uint8_t> transpose(const std::vector<std::uint8_t>& from, std::size_t rows,
                                           std::size_t columns) {
  std::vector<std::uint8_t> to(rows * columns);
  const std::size_t whole_rows = rows / 16 * 16, whole_columns = columns / 16 * 16;
  for (std::size_t x = 0; x < whole_columns; x += 16)
    for (std::size_t y = 0; y < whole_rows; y += 16)
      detail::transpose_tile(from.data() + y * columns + x, columns, to.data() + x * rows + y, rows);
  for (std::size_t y = 0; y < rows; ++y)
    for (std::size_t x = y < whole_rows ? whole_columns : 0; x < columns; ++x) to[x * rows + y] = from[y * columns + x];
  return to;
}

/// Resizes the width of an image, on its transpose with separate colour planes.
inline pixels resample_width(const pixels& from, std::size_t width, resampling as) {
  const pixels across{from.width, from.height, transpose(from.rgb, from.height, 3 * from.width)};
  return {from.height, width, transpose(resample_height(across, width, as).rgb, 3 * width, from.height)};
}

/// Resizes an image: first the width, then the height, each only if it changes. Pillow resizes the height first if the
/// image is over 100 times as tall as wide and its height shrinks.
inline pixels resize(const pixels& image, size to, resampling as) {
  const auto height = static_cast<std::size_t>(to.height), width = static_cast<std::size_t>(to.width);
  const auto of_height = [&](const pixels& from) {
    return from.height == height ? from : resample_height(from, height, as);
  };
  const auto of_width = [&](const pixels& from) {
    return from.width == width ? from : resample_width(from, width, as);
  };
  const bool height_first = as == resampling::pillow && image.height > 100 * image.width && height < image.height;
  return height_first ? of_width(of_height(image)) : of_height(of_width(image));
}

}  // namespace image
RLCORE_END
