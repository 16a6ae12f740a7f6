// Tokenizer files of a model folder, written for our own tokenizers (copy_files.hpp: for those that came with a model).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/chat_family.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/text_file.hpp"
#include "rlcore/text/tokenizer.hpp"

RLCORE_BEGIN
namespace text {

/// Fields of tokenizer_config.json.
struct tokenizer_settings {
  std::string eos_token = "<|im_end|>";
  std::string pad_token = "<|endoftext|>";
  std::string chat_template = std::string(chatml_jinja);  ///< Jinja text
  int model_max_length = 131072;
};

/// Text of a tokenizer_config.json with which transformers' AutoTokenizer takes tokenizer.json as it is.
std::string tokenizer_config_json(const tokenizer_settings& s);

/// Writes tokenizer.json and tokenizer_config.json into `folder`, which is created when missing. Throws
/// std::invalid_argument when the eos or pad token is none of the tokenizer's, file_error when the system refuses.
void save(const tokenizer& t, const std::filesystem::path& folder, const tokenizer_settings& settings = {});

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text {

RLCORE_INLINE std::string tokenizer_config_json(const tokenizer_settings& s) {
  nlohmann::ordered_json j;
  j["add_bos_token"] = false;
  j["add_prefix_space"] = false;
  j["bos_token"] = nullptr;
  j["chat_template"] = s.chat_template;
  j["clean_up_tokenization_spaces"] = false;
  j["eos_token"] = s.eos_token;
  j["model_max_length"] = s.model_max_length;
  j["pad_token"] = s.pad_token;
  j["tokenizer_class"] = "PreTrainedTokenizerFast";
  j["unk_token"] = nullptr;
  return json_text(j, 2) + "\n";
}

RLCORE_INLINE void save(const tokenizer& t, const std::filesystem::path& folder, const tokenizer_settings& settings) {
  require(t.id_of(settings.eos_token).has_value(), "save: settings.eos_token is no token of this tokenizer");
  require(t.id_of(settings.pad_token).has_value(), "save: settings.pad_token is no token of this tokenizer");
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) throw file_error(folder.string() + ": cannot create: " + code.message());
  write_text_file(folder / "tokenizer.json", t.json());
  write_text_file(folder / "tokenizer_config.json", tokenizer_config_json(settings));
}

}  // namespace text
RLCORE_END
#endif
