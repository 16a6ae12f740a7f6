// Files of a model folder. A GGUF file counts as a folder: of the files that hold the same in Hugging Face's form.
#pragma once

#include <filesystem>
#include <string>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace text {

/// Does the file exist? In a GGUF file, as in "model.gguf/config.json", there are config.json, generation_config.json,
/// tokenizer.json and tokenizer_config.json.
bool has_model_file(const std::filesystem::path& path);

/// The text of a file; of one in a GGUF file the translation of its metadata. Throws file_error, format_error.
std::string read_model_file(const std::filesystem::path& path);

/// Copies the files of the tokenizer, the chat template and the processor of images that the model `from` has into
/// the existing folder `to`, replacing them there. Throws file_error when `from` has no tokenizer.json or the system
/// refuses.
void copy_files(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_JSON)
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/gguf/gguf_config.hpp"
#include "rlcore/text/gguf/gguf_file.hpp"
#include "rlcore/text/gguf/gguf_tokenizer.hpp"
#include "rlcore/text/text_file.hpp"

RLCORE_BEGIN
namespace text {

namespace detail {

/// A file that stands for a part of the metadata.
struct gguf_member {
  const char* name;
  std::string (*text)(const gguf_file& file);
};

inline constexpr gguf_member gguf_members[] = {{"config.json", &gguf_config},
                                               {"generation_config.json", &gguf_generation_config},
                                               {"tokenizer.json", &gguf_tokenizer_json},
                                               {"tokenizer_config.json", &gguf_tokenizer_config}};

/// nullptr for a path that is not in a GGUF file, and for a name that there is not in one.
inline const gguf_member* member_of(const std::filesystem::path& path) {
  if (!is_gguf(path.parent_path())) return nullptr;
  for (const gguf_member& m : gguf_members)
    if (path.filename() == m.name) return &m;
  return nullptr;
}

}  // namespace detail

RLCORE_INLINE bool has_model_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return detail::member_of(path) != nullptr || std::filesystem::exists(path, ignored);
}

RLCORE_INLINE std::string read_model_file(const std::filesystem::path& path) {
  if (const detail::gguf_member* m = detail::member_of(path)) return m->text(gguf_file(path.parent_path()));
  return read_text_file(path);
}

RLCORE_INLINE void copy_files(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (!has_model_file(from / "tokenizer.json")) throw file_error((from / "tokenizer.json").string() + ": no such file");
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "chat_template.jinja",
                           "chat_template.json", "special_tokens_map.json", "added_tokens.json",
                           "preprocessor_config.json", "video_preprocessor_config.json", "processor_config.json"}) {
    if (!has_model_file(from / name)) continue;
    // Read and written rather than copied by the system: a read-only original must not make a read-only copy.
    write_text_file(to / name, read_model_file(from / name));
  }
}

}  // namespace text
RLCORE_END
#endif
