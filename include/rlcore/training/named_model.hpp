// Resolves the model folder named by a setting.
#pragma once

#include <filesystem>
#include <string>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace trainer {

/// The folder of `model`, the value of `key`. Throws config_error that names the key, or the flag that stands for it.
inline std::filesystem::path named_model(const options& opt, const std::string& key, const std::string& model) {
  try {
    return checkpoint::resolve_model(model);
  } catch (const config_error& e) {
    throw config_error(opt.typed().in(opt.known().typed_name(key)) + ": " + e.what());
  }
}

/// The same for the value that `opt` has.
inline std::filesystem::path named_model(const options& opt, const std::string& key) {
  return named_model(opt, key, opt.get<std::string>(key));
}

}  // namespace trainer
RLCORE_END
