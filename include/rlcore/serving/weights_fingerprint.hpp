// A number by which clients tell apart the weights that answered them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/core/version.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/parallel/host_window.hpp"
#include "rlcore/tensor/buffer.hpp"

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

/// The same of weights in the memory of a device, read where they are if the host sees them.
template <rlcore::device Device>
std::string fingerprint_of(Device& device, const buffer<float, Device>& weights) {
  std::vector<float> copy;
  return fingerprint_of({parallel::host_view(device, weights.data(), weights.size(), copy), weights.size()});
}

}  // namespace serving
RLCORE_END
