// A number by which clients tell apart the weights that answered them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

#include "rlcore/core/random.hpp"
#include "rlcore/core/version.hpp"

RLCORE_BEGIN
namespace serving {

/// A text that changes with the weights and the build: the system_fingerprint of answers.
inline std::string fingerprint_of(std::span<const float> weights) {
  std::uint64_t hash = 0;
  const std::size_t step = std::max<std::size_t>(1, weights.size() / 65536);
  for (std::size_t i = 0; i < weights.size(); i += step)
    hash = random_key{hash}.child(std::bit_cast<std::uint32_t>(weights[i])).seed;
  char text[32];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return "rlcore-" RLCORE_VERSION_STRING "-" + std::string(text);
}

}  // namespace serving
RLCORE_END
