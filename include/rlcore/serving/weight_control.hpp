// What a client with the right to do so may do to the weights of a server.
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
};

}  // namespace serving
RLCORE_END
