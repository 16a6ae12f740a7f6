// Log-probs as answers show them, with the positions of tokens in a text.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/generator.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/text/decoder.hpp"
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

/// JSON has no infinity: uses vLLM's replacement.
inline double shown_logp(float logp) noexcept { return logp >= -9999.0f ? double{logp} : -9999.0; }

/// How a token is written in log-probs: its own text, or token_id:N.
inline std::string shown_token(const text::tokenizer& tokenizer, std::int32_t id, bool as_id) {
  return as_id ? "token_id:" + std::to_string(id) : tokenizer.decode(std::array{id});
}

/// The bytes of a token: its own also where it is a part of a character.
std::string bytes_of_token(const text::tokenizer& tokenizer, std::int32_t id);

/// The most likely `k` tokens, followed by `token` itself if it is not among them.
std::vector<rollout::token_logprob> with_token(const scored_token& token, std::size_t k);

/// The log-probs of a choice of /v1/completions: {"text_offset", "token_logprobs", "tokens", "top_logprobs"}. Offsets
/// are positions in the choice's text, and continue across pieces.
class completion_log_probs {
 public:
  /// Shows `top` of the most likely tokens with each; `as_ids` writes tokens as token_id:N; `skip_special_tokens` as in
  /// the text.
  completion_log_probs(const text::tokenizer& tokenizer, std::int32_t top, bool as_ids, bool skip_special_tokens)
      : tokenizer_(tokenizer),
        top_(static_cast<std::size_t>(top)),
        as_ids_(as_ids),
        skip_special_tokens_(skip_special_tokens),
        positions_(tokenizer, skip_special_tokens) {}

  /// The tokens of an echoed prompt, of which the first has no log-prob. `text` is what the choice shows of it: the
  /// prompt as sent, if it was `sent` as a text.
  void add_prompt(std::int32_t first, std::span<const scored_token> others, std::string_view text, bool sent);
  /// The next tokens.
  void add(std::span<const scored_token> tokens);
  /// Everything added since the last call.
  json take() {
    json out{{"text_offset", offsets_}, {"token_logprobs", logps_}, {"tokens", tokens_}, {"top_logprobs", likely_}};
    offsets_ = logps_ = tokens_ = likely_ = json::array();
    return out;
  }

 private:
  void add(std::int32_t id, std::size_t offset, json logp, json likely);

  const text::tokenizer& tokenizer_;
  std::size_t top_;
  bool as_ids_, skip_special_tokens_;
  text_positions positions_;
  json offsets_ = json::array(), logps_ = json::array(), tokens_ = json::array(), likely_ = json::array();
};

/// The log-probs of an answer in a conversation: {"content": [{"token", "logprob", "bytes", "top_logprobs"}]}. `bytes`
/// are the token's own, so that those of all tokens together are the text's.
json chat_log_probs(const text::tokenizer& tokenizer, std::span<const scored_token> tokens, std::int32_t top,
                    bool as_ids);

/// The log-probs of a prompt: null for its first token, then {token id: {"logprob", "rank", "decoded_token"}} with the
/// token itself first. Ranks count from 1.
json prompt_log_probs(const text::tokenizer& tokenizer, std::span<const scored_token> tokens);

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
#include "rlcore/text/utf8.hpp"

RLCORE_BEGIN
namespace serving {

RLCORE_INLINE std::string bytes_of_token(const text::tokenizer& tokenizer, std::int32_t id) {
  if (tokenizer.decodes_bytes()) return std::string(tokenizer.bytes_of(id));
  const bool known = static_cast<std::size_t>(id) < tokenizer.vocab_size();
  const int byte = known ? text::decoder::fallback_byte(tokenizer.token_of(id)) : -1;
  return byte >= 0 ? std::string(1, static_cast<char>(byte)) : tokenizer.decode(std::array{id});
}

RLCORE_INLINE std::vector<rollout::token_logprob> with_token(const scored_token& token, std::size_t k) {
  std::vector<rollout::token_logprob> all(
      token.most_likely.begin(),
      token.most_likely.begin() + static_cast<std::ptrdiff_t>(std::min(k, token.most_likely.size())));
  if (std::none_of(all.begin(), all.end(), [&](const auto& t) { return t.token == token.id; }))
    all.push_back({token.id, token.logp});
  return all;
}

RLCORE_INLINE void completion_log_probs::add(std::span<const scored_token> tokens) {
  for (const scored_token& t : tokens) {
    json likely = json::object();
    for (const rollout::token_logprob& other : with_token(t, top_))
      likely[shown_token(tokenizer_, other.token, as_ids_)] = shown_logp(other.logp);
    add(t.id, positions_.push(t.id), shown_logp(t.logp), std::move(likely));
  }
}

RLCORE_INLINE void completion_log_probs::add_prompt(std::int32_t first, std::span<const scored_token> others,
                                                    std::string_view text, bool sent) {
  // Special tokens stand in a text that spells them; one that the tokenizer put in front does not.
  const bool added = sent && tokenizer_.is_special(first) && !text.starts_with(tokenizer_.token_of(first));
  positions_ = text_positions(tokenizer_, skip_special_tokens_ && !sent);
  add(first, added ? 0 : positions_.push(first), nullptr, nullptr);
  add(others);
  positions_ = text_positions(tokenizer_, skip_special_tokens_, characters(text));
}

RLCORE_INLINE void completion_log_probs::add(std::int32_t id, std::size_t offset, json logp, json likely) {
  std::string text = shown_token(tokenizer_, id, as_ids_);
  offsets_.push_back(offset);
  tokens_.push_back(std::move(text));
  logps_.push_back(std::move(logp));
  likely_.push_back(std::move(likely));
}

RLCORE_INLINE json chat_log_probs(const text::tokenizer& tokenizer, std::span<const scored_token> tokens,
                                  std::int32_t top, bool as_ids) {
  const auto entry = [&](std::int32_t id, float logp) {
    const std::string text = shown_token(tokenizer, id, as_ids);
    const std::string bytes = bytes_of_token(tokenizer, id);
    json values = json::array();
    for (const char c : bytes) values.push_back(static_cast<unsigned char>(c));
    return json{{"token", text}, {"logprob", shown_logp(logp)}, {"bytes", std::move(values)}};
  };
  json content = json::array();
  for (const scored_token& t : tokens) {
    json one = entry(t.id, t.logp), likely = json::array();
    if (top > 0)
      for (const rollout::token_logprob& other : with_token(t, static_cast<std::size_t>(top)))
        likely.push_back(entry(other.token, other.logp));
    one["top_logprobs"] = std::move(likely);
    content.push_back(std::move(one));
  }
  return {{"content", std::move(content)}};
}

RLCORE_INLINE json prompt_log_probs(const text::tokenizer& tokenizer, std::span<const scored_token> tokens) {
  json list = json::array({nullptr});
  for (const scored_token& t : tokens) {
    json entries = json::object();
    const auto put = [&](std::int32_t id, float logp, json rank) {
      const std::string key = std::to_string(id);
      if (!entries.contains(key))
        entries[key] = {{"logprob", shown_logp(logp)},
                        {"rank", std::move(rank)},
                        {"decoded_token", shown_token(tokenizer, id, false)}};
    };
    put(t.id, t.logp, t.rank > 0 ? json(t.rank) : json(nullptr));
    for (std::size_t k = 0; k < t.most_likely.size(); ++k) put(t.most_likely[k].token, t.most_likely[k].logp, k + 1);
    list.push_back(std::move(entries));
  }
  return list;
}

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
