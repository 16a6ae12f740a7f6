// What both sides compute, and the two names under which they do.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

struct side_result {
  static constexpr std::size_t rows = 2, tokens = 100;  // no multiple of any register

  std::size_t lanes = 0;  // floats in one register of this side: tells whose loop ran
  double loss = 0;
  std::array<float, 2> advantage{};  // of rewards 1 and 0
  std::array<float, rows * tokens> gradient{};
  std::uint64_t random = 0;  // the same bits on every side
};

// The batch, by formula: token i of row r has log-prob -1 - i / 64, and the others lie by these distances from it.
inline float old_distance(std::size_t i) { return static_cast<float>(i % 7) * 0.125f - 0.375f; }
inline float ref_distance(std::size_t i) { return static_cast<float>(i % 5) * 0.0625f - 0.125f; }
inline float advantage_of(std::size_t r) { return r == 0 ? 1.0f : -0.5f; }

side_result link_base();
side_result link_native();
