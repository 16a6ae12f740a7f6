// The trained model of a checkpoint, copied to where the next program reads it.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include "rlcore/core/error.hpp"
#include "rlcore/telemetry/console.hpp"

RLCORE_BEGIN
namespace trainer {

/// Copies `from`/huggingface to `to`, and an adapter to `to`/lora_adapter: a folder for transformers and for
/// `--pretrain`. Throws file_error.
inline void export_model(const std::filesystem::path& from, const std::filesystem::path& to) {
  namespace fs = std::filesystem;
  std::error_code failure;
  fs::create_directories(to, failure);
  for (const char* part : {"huggingface", "lora_adapter"})
    if (!failure && fs::exists(from / part))
      fs::copy(from / part, part == std::string("huggingface") ? to : to / part,
               fs::copy_options::recursive | fs::copy_options::overwrite_existing, failure);
  if (failure) throw file_error(to.string() + ": cannot write the model: " + failure.message());
  say("model       %s\n", to.c_str());
}

}  // namespace trainer
RLCORE_END
