// Synthetic digit images, unlimited, for the image quickstart and its tests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/image/pixels.hpp"

namespace drawn_digits {

struct problem {
  rlcore::image::pixels image;
  int result = 0;

  /// As in raw GSM8K: "#### 3".
  std::string answer() const { return "#### " + std::to_string(result); }
};

inline constexpr std::string_view question = "Which digit is this?";
inline constexpr std::size_t side = 56;  ///< pixels: 2 x 2 tokens of Qwen2.5-VL

/// Digits of 5 x 7 dots, row after row.
inline constexpr std::array<std::string_view, 10> dots{
    ".###.#...##..###.#.###..##...#.###.", "..#...##....#....#....#....#...###.", ".###.#...#....#...#...#...#...#####",
    "#####...#...#.....#.....##...#.###.", "...#...##..#.#.#..#.#####...#....#.", "######....####.....#....##...#.###.",
    "..##..#...#....####.#...##...#.###.", "#####....#...#...#...#....#....#...", ".###.#...##...#.###.#...##...#.###.",
    ".###.#...##...#.####....#...#..##.."};

/// Problem number `index` of the stream `key`: a digit of random size and position, light on dark or dark on light.
inline problem make(rlcore::random_key key, std::uint32_t index) {
  std::uint32_t drawn = 0;
  const auto pick = [&](std::size_t n) {
    return static_cast<std::size_t>(key.below(static_cast<std::uint32_t>(n), index, drawn++));
  };
  const bool dark_ink = pick(2) == 1;
  std::array<std::uint8_t, 3> ink{}, ground{};
  for (std::size_t c = 0; c < 3; ++c) {
    const std::size_t dark = pick(110), light = 145 + pick(111);
    ink[c] = static_cast<std::uint8_t>(dark_ink ? dark : light);
    ground[c] = static_cast<std::uint8_t>(dark_ink ? light : dark);
  }
  problem p{{side, side, std::vector<std::uint8_t>(side * side * 3)}, static_cast<int>(pick(10))};
  const std::size_t dot = 5 + pick(3), top = pick(side - 7 * dot + 1), left = pick(side - 5 * dot + 1);
  const std::string_view digit = dots[static_cast<std::size_t>(p.result)];
  for (std::size_t y = 0; y < side; ++y)
    for (std::size_t x = 0; x < side; ++x) {
      const bool inside = y >= top && x >= left && y < top + 7 * dot && x < left + 5 * dot;
      const bool inked = inside && digit[(y - top) / dot * 5 + (x - left) / dot] == '#';
      for (std::size_t c = 0; c < 3; ++c) p.image.rgb[3 * (y * side + x) + c] = inked ? ink[c] : ground[c];
    }
  return p;
}

}  // namespace drawn_digits
