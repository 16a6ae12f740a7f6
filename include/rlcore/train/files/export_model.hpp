// Exports the trained model of a checkpoint to a folder.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "rlcore/core/error.hpp"
#include "rlcore/telemetry/console.hpp"

RLCORE_BEGIN
namespace train {

/// Throws config_error, which begins with `name`, unless the folder `to` is writable or can be created; called before
/// training.
void check_export(const std::string& name, const std::filesystem::path& to);

/// Copies `from`/huggingface to `to`, and an adapter to `to`/lora_adapter: a folder for transformers and for
/// `--pretrain`. Throws file_error.
void export_model(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_RUN)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE void check_export(const std::string& name, const std::filesystem::path& to) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path nearest = fs::absolute(to);
  while (!fs::exists(nearest, ignored) && nearest.has_relative_path()) nearest = nearest.parent_path();
  const char* why = !fs::is_directory(nearest, ignored)                                    ? " is no folder"
                    : ::faccessat(AT_FDCWD, nearest.c_str(), W_OK | X_OK, AT_EACCESS) != 0 ? " cannot be written to"
                                                                                           : nullptr;
  if (why != nullptr)
    throw config_error(name + " " + to.string() + ": " + nearest.string() + why + "; expected a folder for the model");
}

RLCORE_INLINE void export_model(const std::filesystem::path& from, const std::filesystem::path& to) {
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

}  // namespace train
RLCORE_END
#endif
