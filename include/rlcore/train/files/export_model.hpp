// Exports the trained model of a checkpoint to a folder or a GGUF file.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "rlcore/core/error.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/telemetry/console.hpp"

RLCORE_BEGIN
namespace train {

/// Throws config_error, which begins with `name`, unless the folder `to` is writable or can be created; of a path that
/// ends in .gguf the folder around it, and then it must not be a folder. Called before training.
void check_export(const std::string& name, const std::filesystem::path& to);

/// Throws format_error, which begins with `name`, unless a model of this configuration, with the tokenizer of `folder`,
/// can become a GGUF file: if `to` ends in .gguf. Called before training.
void check_export_of(const std::string& name, const std::filesystem::path& to, const nn::config& config,
                     const std::filesystem::path& folder);

/// Copies `from`/huggingface to `to`, and an adapter to `to`/lora_adapter: a folder for transformers and for
/// `--pretrain`. A path that ends in .gguf becomes that file, with matrices of `type` (rlcore.export_type) and an
/// adapter added. Throws file_error, format_error.
void export_model(const std::filesystem::path& from, const std::filesystem::path& to, const std::string& type);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_RUN)
#include "rlcore/checkpoint/gguf_blocks.hpp"
#include "rlcore/checkpoint/write_gguf.hpp"
#include "rlcore/train/files/model_merger.hpp"

RLCORE_BEGIN
namespace train {

RLCORE_INLINE void check_export(const std::string& name, const std::filesystem::path& to) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool file = to.extension() == ".gguf";
  if (file && fs::is_directory(to, ignored))
    throw config_error(name + " " + to.string() + ": is a folder; expected a file for the model, or another name");
  fs::path nearest = file ? fs::absolute(to).parent_path() : fs::absolute(to);
  while (!fs::exists(nearest, ignored) && nearest.has_relative_path()) nearest = nearest.parent_path();
  const char* why = !fs::is_directory(nearest, ignored)                                    ? " is no folder"
                    : ::faccessat(AT_FDCWD, nearest.c_str(), W_OK | X_OK, AT_EACCESS) != 0 ? " cannot be written to"
                                                                                           : nullptr;
  if (why != nullptr)
    throw config_error(name + " " + to.string() + ": " + nearest.string() + why + "; expected a folder for the model");
}

RLCORE_INLINE void check_export_of(const std::string& name, const std::filesystem::path& to, const nn::config& config,
                                   const std::filesystem::path& folder) {
  if (to.extension() != ".gguf") return;
  try {
    checkpoint::gguf_metadata_of(config, folder, "", checkpoint::gguf_block_of("F32"));
  } catch (const format_error& e) {
    throw format_error(name + " " + to.string() + ": " + e.what());
  }
}

RLCORE_INLINE void export_model(const std::filesystem::path& from, const std::filesystem::path& to,
                                const std::string& type) {
  namespace fs = std::filesystem;
  if (to.extension() == ".gguf") {
    merger_settings s;
    s.local_dir = from, s.target_dir = to, s.merge_lora = detail::holds_adapter_alone(from);
    s.gguf = gguf_type_named("rlcore.export_type", type);
    merge_model(s);
    say("model       %s\n", to.c_str());
    return;
  }
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
