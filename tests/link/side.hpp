// What both sides compute, and the two names under which they do.
#pragma once

#include <cstddef>
#include <cstdint>

struct side_result {
  std::size_t lanes = 0;         // floats in one register of this side: tells whose loop ran
  float exponential_sum = 0.0f;  // sum over i of exp(i / 64 - 1)
  std::uint64_t random = 0;      // the same bits on every side
};

side_result link_base();
side_result link_native();
