// Helpers of the kernel tests: every available instruction set, and reproducible values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/device/cpu.hpp"

namespace rlcore_test {

inline std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const auto* set : rlcore::cpu_kernels::available()) names.emplace_back(set->name);
  return names;
}

/// n normal values, a function of (seed, index).
inline std::vector<float> normal(std::size_t n, std::uint64_t seed, double scale = 1) {
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = static_cast<float>(scale * rlcore::random_key{seed}.normal(static_cast<std::uint32_t>(i)));
  return x;
}

}  // namespace rlcore_test
