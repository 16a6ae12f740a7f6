// What clients that have the right to may do to the weights of a server.
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

/// Adapters come and go while requests are answered. `connected` says whether the client that asked is still there;
/// whatever waits throws client_gone where it is not, and nothing has changed then.
class weight_control {
 public:
  virtual ~weight_control() = default;
  /// Adds PEFT's adapter in `path` to the model's weights and serves them as `name`. With `in_place` it may be another
  /// version of an adapter of that name: requests that are inside end with the earlier one, those that come wait.
  /// Throws api_error 400 and 404, and what the readers of folders throw.
  virtual void load_adapter(const std::string& name, const std::string& path, bool in_place,
                            const std::function<bool()>& connected) = 0;
  /// No further request may name it; those inside end as they would. Throws api_error 404.
  virtual void unload_adapter(const std::string& name) = 0;

  /// Gives the model the weights of another folder of the same shape; requests that come meanwhile wait for them. Those
  /// that are inside end with the earlier ones, and this waits for them; with `keep_running` they go on with the new
  /// ones at once. Adapters stay as they are. Throws api_error 400, and what the readers of folders throw.
  virtual void update_weights(const std::string& model, bool keep_running, const std::function<bool()>& connected) = 0;
  /// Gives the memory of keys and values back when the requests that are inside have ended; others wait.
  virtual void sleep(const std::function<bool()>& connected) = 0;
  /// Takes it again, and lets those who wait enter.
  virtual void wake_up() = 0;
  virtual bool sleeping() const = 0;
  /// Forgets the keys and values of all prompts. No text changes.
  virtual void forget_prefixes() = 0;
};

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
