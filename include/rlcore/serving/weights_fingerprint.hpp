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

RLCORE_BEGIN
namespace serving {

/// A text that changes with the weights and the build: the system_fingerprint of answers.
class weights_fingerprint {
 public:
  /// Of so many weights.
  explicit weights_fingerprint(std::size_t weights)
      : step_(std::max<std::size_t>(1, weights / 65536)), sample_((weights + step_ - 1) / step_) {}

  /// Looks at the weights from number `first` on. Threads may call it at once for different ones.
  void see(std::size_t first, std::span<const float> weights) {
    for (std::size_t i = (first + step_ - 1) / step_; i * step_ < first + weights.size(); ++i)
      sample_[i] = weights[i * step_ - first];
  }
  /// The text, when all have been seen.
  std::string text() const {
    std::uint64_t hash = 0;
    for (const float x : sample_) hash = random_key{hash}.child(std::bit_cast<std::uint32_t>(x)).seed;
    char text[32];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
    return "rlcore-" RLCORE_VERSION_STRING "-" + std::string(text);
  }

 private:
  std::size_t step_;
  std::vector<float> sample_;
};

/// That of weights in the memory of the host.
inline std::string fingerprint_of(std::span<const float> weights) {
  weights_fingerprint seen(weights.size());
  seen.see(0, weights);
  return seen.text();
}

}  // namespace serving
RLCORE_END
