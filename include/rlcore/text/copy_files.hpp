// Copies tokenizer, chat template and processor files of a model folder unchanged.
#pragma once

#include <filesystem>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/text_file.hpp"

RLCORE_BEGIN
namespace text {

/// Copies the files of the tokenizer, the chat template and the processor of pictures that folder `from` has into the
/// existing folder `to`, replacing them there. Throws file_error when `from` has no tokenizer.json or the system
/// refuses.
inline void copy_files(const std::filesystem::path& from, const std::filesystem::path& to) {
  namespace fs = std::filesystem;
  if (!fs::exists(from / "tokenizer.json")) throw file_error((from / "tokenizer.json").string() + ": no such file");
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "chat_template.jinja",
                           "chat_template.json", "special_tokens_map.json", "added_tokens.json",
                           "preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json"}) {
    if (!fs::exists(from / name)) continue;
    // Read and written rather than copied by the system: a read-only original must not make a read-only copy.
    write_text_file(to / name, read_text_file(from / name));
  }
}

}  // namespace text
RLCORE_END
