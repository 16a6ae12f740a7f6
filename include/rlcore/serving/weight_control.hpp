// Weight updates by authorized clients: load adapters, update, sleep, wake up.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/core/version.hpp"

RLCORE_BEGIN
namespace serving {

/// Adapters can be loaded and unloaded while requests run. `connected` returns whether the client is still connected;
/// waiting calls throw client_gone if it is not, without any change.
class weight_control {
 public:
  virtual ~weight_control() = default;
  /// Adds PEFT's adapter in `path` to the model's weights and serves them as `name`. With `in_place` it may replace an
  /// adapter of that name: requests in progress finish with the old version, new ones wait. Throws api_error 400 and
  /// 404, and the errors of the folder readers.
  virtual void load_adapter(const std::string& name, const std::string& path, bool in_place,
                            const std::function<bool()>& connected) = 0;
  /// Stops serving it; requests in progress finish normally. Throws api_error 404.
  virtual void unload_adapter(const std::string& name) = 0;

  /// Loads the weights of a different folder of the same shape; new requests wait. Requests in progress finish with the
  /// old weights, and the call waits for them; with `keep_running` they continue with the new weights at once. Adapters
  /// are unchanged. Throws api_error 400, and the errors of the folder readers.
  virtual void update_weights(const std::string& model, bool keep_running, const std::function<bool()>& connected) = 0;
  /// Frees the KV cache once the requests in progress have ended; new requests wait.
  virtual void sleep(const std::function<bool()>& connected) = 0;
  /// Allocates it again, and admits waiting requests.
  virtual void wake_up() = 0;
  virtual bool sleeping() const = 0;
  /// Clears the prefix cache. No text changes.
  virtual void forget_prefixes() = 0;
};

/// A text that changes with the weights and the build: the system_fingerprint of answers.
class weights_fingerprint {
 public:
  /// For `weights` weights.
  explicit weights_fingerprint(std::size_t weights)
      : step_(std::max<std::size_t>(1, weights / 65536)), sample_((weights + step_ - 1) / step_) {}

  /// Adds the weights from index `first` on. Thread-safe for disjoint ranges.
  void see(std::size_t first, std::span<const float> weights) {
    for (std::size_t i = (first + step_ - 1) / step_; i * step_ < first + weights.size(); ++i)
      sample_[i] = weights[i * step_ - first];
  }
  /// The fingerprint, after all weights have been added.
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

/// The fingerprint of weights in host memory.
inline std::string fingerprint_of(std::span<const float> weights) {
  weights_fingerprint seen(weights.size());
  seen.see(0, weights);
  return seen.text();
}

}  // namespace serving
RLCORE_END
