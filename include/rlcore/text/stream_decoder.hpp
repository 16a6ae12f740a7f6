// Streaming detokenizer: decodes tokens while the model generates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/decoder.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/text/utf8.hpp"

RLCORE_BEGIN
namespace text {

/// Decodes one token after the other and returns only whole characters. All pieces together, including finish(), are
/// the text of tokenizer::decode() for all ids at once. If a decoder needs more than adjacent tokens (no published
/// model does), finish() returns everything.
class stream_decoder {
 public:
  /// Decodes with `t`; special tokens have no text if `skip_special_tokens`.
  explicit stream_decoder(tokenizer t, bool skip_special_tokens = false)
      : tokenizer_(std::move(t)), skip_special_tokens_(skip_special_tokens), in_order_(tokenizer_.decodes_in_order()) {}

  /// The text that `id` completes; empty while a character is unfinished. Throws std::invalid_argument for a negative
  /// id; ids beyond the vocabulary have no text.
  std::string push(std::int32_t id);

  /// The text that finish() would return now.
  std::string held() const;
  /// Returns the rest: U+FFFD for an unfinished character. Resets the decoder.
  std::string finish();

 private:
  // Other decoders look at neighbours. A run of bytes <0xNN> is one text or all U+FFFD, so it is kept back until it
  // ends. A space that is stripped at the start, or put between tokens, needs only the token before.
  std::string push_token(std::int32_t id);

  tokenizer tokenizer_;
  bool skip_special_tokens_, in_order_;
  std::string pending_;
  std::vector<std::int32_t> ids_;
  std::size_t emitted_ = 0;
};

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text {

RLCORE_INLINE std::string stream_decoder::push(std::int32_t id) {
  require(id >= 0, "stream_decoder: a negative token id");
  if (!tokenizer_.decodes_bytes()) return push_token(id);
  if (skip_special_tokens_ && tokenizer_.is_special(id)) return {};
  pending_ += tokenizer_.bytes_of(id);
  std::string text;
  std::size_t at = 0;
  while (at < pending_.size()) {
    const utf8_step step = read_utf8(pending_, at);
    if (step.type == utf8_step::kind::cut_off) break;
    if (step.type == utf8_step::kind::character) {
      text.append(pending_, at, step.length);
    } else {
      text += "\xEF\xBF\xBD";
    }
    at += step.length;
  }
  pending_.erase(0, at);
  return text;
}

RLCORE_INLINE std::string stream_decoder::held() const {
  return tokenizer_.decodes_bytes() ? utf8_lossy(pending_) : tokenizer_.decode(ids_).substr(emitted_);
}

RLCORE_INLINE std::string stream_decoder::finish() {
  std::string rest = held();
  pending_.clear();
  ids_.clear();
  emitted_ = 0;
  return rest;
}

RLCORE_INLINE std::string stream_decoder::push_token(std::int32_t id) {
  const bool skipped = skip_special_tokens_ && tokenizer_.is_special(id);
  if (skipped || static_cast<std::size_t>(id) >= tokenizer_.vocab_size()) return {};
  ids_.push_back(id);
  if (!in_order_ || decoder::fallback_byte(tokenizer_.token_of(id)) >= 0) return {};
  std::string piece = tokenizer_.decode(ids_).substr(emitted_);
  ids_.assign(1, id);
  emitted_ = tokenizer_.decode(ids_).size();
  return piece;
}

}  // namespace text
RLCORE_END
#endif
