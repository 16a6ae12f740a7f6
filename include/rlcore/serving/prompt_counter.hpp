// Random keys of requests without a seed: equal from one start of a server to the next.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/random.hpp"

RLCORE_BEGIN
namespace serving {

/// Hash of a prompt's tokens.
inline std::uint64_t hash_of(std::span<const std::int32_t> prompt) noexcept {
  std::uint64_t hash = 0x70726f6d7074;
  for (std::size_t i = 0; i < prompt.size(); i += 4) {
    std::array<std::uint32_t, 4> four{};
    for (std::size_t k = 0; k < 4 && i + k < prompt.size(); ++k)
      four[k] = static_cast<std::uint32_t>(prompt[i + k]) + 1;
    const auto w = philox(hash, four);
    hash = (std::uint64_t{w[0]} << 32) | w[1];
  }
  return hash;
}

/// Gives the k-th request for a prompt, images included, a key of (server seed, prompt, k). The texts of k equal
/// requests are then the same k texts, independent of other requests and of arrival order. Entries are never evicted,
/// since that would change texts: each distinct prompt takes about 40 bytes.
class prompt_counter {
 public:
  /// Starts at 0; `server` is the key of the server's seed.
  explicit prompt_counter(random_key server) : server_(server) {}

  /// Resets all counts.
  void restart() {
    const std::lock_guard lock(mutex_);
    asked_.clear();
  }

  /// The key of the next request for this prompt; `pictures` is the hash of its images, 0 for none.
  random_key next(std::span<const std::int32_t> prompt, std::uint64_t pictures = 0) {
    const std::uint64_t hash = hash_of(prompt) ^ pictures;
    std::uint32_t times = 0;
    {
      const std::lock_guard lock(mutex_);
      times = asked_[hash]++;
    }
    const random_key own{server_.seed ^ hash};
    return own.child(times);
  }

 private:
  random_key server_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::uint32_t> asked_;
};

}  // namespace serving
RLCORE_END
