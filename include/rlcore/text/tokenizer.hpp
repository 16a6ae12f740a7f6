// Hugging Face tokenizer (tokenizer.json): text to token ids and back. Slow to compile: with RLCORE_COMPILED the
// implementation is in src/text.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace text {

/// A byte-level (or character-level) BPE tokenizer. Cheap to copy, immutable, usable by many threads at once.
///
/// Encodes and decodes exactly as the `tokenizers` library does with the same file, except that it refuses rather than
/// drops: text that is not UTF-8, characters without token. Truncation and padding stored in the file are not applied,
/// as `transformers` does not apply them either.
class tokenizer {
 public:
  /// Reads tokenizer.json, and tokenizer_config.json beside it where there is one (eos_token, pad_token, further added
  /// tokens). `folder_or_file`: the folder, or the tokenizer.json itself. Throws file_error, format_error.
  static tokenizer load(const std::filesystem::path& folder_or_file);

  /// From the texts of tokenizer.json and tokenizer_config.json (may be empty). `where` names them in messages.
  static tokenizer parse(std::string json, std::string_view config, const std::string& where = "tokenizer.json");

  /// Ids of `utf8`. `parse_special`: whether the text of special tokens (<|im_end|>, ...) becomes their id; false for
  /// text that must not be able to forge them. Adds no special tokens: add_special_tokens=False of transformers, as for
  /// rendered chat templates. Throws data_error for broken UTF-8.
  std::vector<std::int32_t> encode(std::string_view utf8, bool parse_special = true) const;

  /// encode() with the tokens that the tokenizer puts around a whole text, such as Llama 3's <|begin_of_text|> in
  /// front: add_special_tokens=True of transformers, its default.
  std::vector<std::int32_t> encode_with_special_tokens(std::string_view utf8, bool parse_special = true) const;

  /// Text of `ids`. Ids beyond the vocabulary (models pad their embedding) have no text. Broken UTF-8 becomes U+FFFD.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens = false) const;

  /// Id of a token spelled as in the file (added tokens as they are, others in the byte alphabet).
  std::optional<std::int32_t> id_of(std::string_view token) const;

  /// The spelling of a token; empty for an id without token. Throws std::invalid_argument for ids out of range.
  const std::string& token_of(std::int32_t id) const;

  /// The bytes a token stands for in a byte-level vocabulary; empty for ids without token.
  std::string_view bytes_of(std::int32_t id) const;

  /// Highest id + 1, added tokens included.
  std::size_t vocab_size() const noexcept;

  /// Ids of the tokens that tokenizer_config.json names eos_token and pad_token.
  std::optional<std::int32_t> eos_id() const noexcept;
  std::optional<std::int32_t> pad_id() const noexcept;

  /// Whether `id` is spelled as an added token that is marked special: decoding may leave it out. As in tokenizers
  /// 0.23, one that is decoded normalised, and so spelled otherwise, is not.
  bool is_special(std::int32_t id) const;

  /// Whether decoding is the bytes of the tokens in a row (see stream_decoder).
  bool decodes_bytes() const noexcept;
  /// Can tokens be decoded one by one, given only the previous token? See stream_decoder.
  bool decodes_in_order() const;

  /// The text of the tokenizer.json this was read from.
  const std::string& json() const noexcept;

 private:
  struct parts;

  tokenizer() = default;

  bool has_text(std::int32_t id) const;
  void encode_text(std::string_view text, std::vector<std::int32_t>& ids) const;

  std::shared_ptr<const parts> parts_;
};

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED)
#include "rlcore/text/tokenizer_parts.hpp"
#endif
