// What clients that have the right to may do to the weights of a server.
#pragma once

#include <functional>
#include <string>

#include "rlcore/core/abi.hpp"

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

}  // namespace serving
RLCORE_END
