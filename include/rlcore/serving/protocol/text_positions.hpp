// Where tokens stand in a text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/stream_decoder.hpp"
#include "rlcore/text/tokenizer.hpp"

RLCORE_BEGIN
namespace serving {

/// Number of characters, the unit of offsets.
inline std::size_t characters(std::string_view utf8) noexcept {
  return static_cast<std::size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

/// The positions of tokens in the text that they are decoded to, in characters. All tokens of one character have its
/// position. (vLLM counts each of them as a character, so that its positions behind an emoji are too large.)
class text_positions {
 public:
  /// Special tokens have no place in the text if `skip_special_tokens`; the text begins at `first`.
  text_positions(const text::tokenizer& tokenizer, bool skip_special_tokens, std::size_t first = 0)
      : tokenizer_(&tokenizer), decoder_(tokenizer, skip_special_tokens), written_(first) {}

  /// The position of the next token.
  std::size_t push(std::int32_t id);

 private:
  const text::tokenizer* tokenizer_;
  text::stream_decoder decoder_;
  std::size_t written_;  // characters that are complete
  std::string run_;      // bytes of tokens <0xNN>
};

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
#include "rlcore/text/decoder.hpp"
#include "rlcore/text/utf8.hpp"

RLCORE_BEGIN
namespace serving {

RLCORE_INLINE std::size_t text_positions::push(std::int32_t id) {
  const std::size_t before = written_;
  const std::string held = decoder_.held();
  const std::string piece = decoder_.push(id);
  written_ += characters(piece);
  if (tokenizer_->decodes_bytes()) {
    // The token goes on with an unfinished character, or that is lost: U+FFFD.
    const bool lost = !held.empty() && piece.starts_with("\xEF\xBF\xBD");
    return before + (lost ? characters(held) : 0);
  }
  const int byte = static_cast<std::size_t>(id) < tokenizer_->vocab_size()
                       ? text::decoder::fallback_byte(tokenizer_->token_of(id))
                       : -1;
  if (byte < 0) {
    run_.clear();
    return before + characters(held);
  }
  std::size_t complete = 0;
  for (std::size_t at = 0; at < run_.size(); ++complete) {
    const text::utf8_step step = text::read_utf8(run_, at);
    if (step.type == text::utf8_step::kind::cut_off) break;
    at += step.length;
  }
  run_ += static_cast<char>(byte);
  return before + complete;
}

}  // namespace serving
RLCORE_END
#endif
