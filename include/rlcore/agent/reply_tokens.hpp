// The tokens between a turn of the policy and its next one: replies of tools or words of the user, as the chat template
// shows them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/tokenizer.hpp"

RLCORE_BEGIN
namespace agent {

/// Options of reply_tokens.
struct reply_options {
  std::optional<bool> enable_thinking = {};  ///< of the chat template, as in the prompt
  bool newline = true;   ///< what the template puts between the end mark and the next turn; false: verl of 2025-08
  bool special = false;  ///< true: special tokens in the text of a reply become tokens, as in verl
  bool tools = true;     ///< replies of tools are wanted; false: words of the user alone
};

/// Turns replies into tokens that are appended to a row. What stands in the row is never rendered or encoded
/// again. If the texts of all turns encode to the tokens that were sampled, prompt + turns + replies are the tokens of
/// the whole conversation as the chat template renders it.
class reply_tokens {
 public:
  /// Throws config_error if the template has no tools and they are wanted, or does not end turns by one of `eos_ids`.
  reply_tokens(text::chat_template chat, text::tokenizer tokenizer, std::span<const std::int32_t> eos_ids,
               const reply_options& options = {});

  /// Replies of tools, then the opening of the assistant's next turn. `last_token` is that of the turn before: what
  /// separates turns is left out where it is not the template's end mark. Texts are valid UTF-8.
  std::vector<std::int32_t> of_tools(std::span<const std::string> texts, std::int32_t last_token) const {
    return tokens("tool", texts, last_token);
  }
  /// The same for a turn of the user.
  std::vector<std::int32_t> of_user(const std::string& text, std::int32_t last_token) const {
    return tokens("user", {&text, 1}, last_token);
  }

 private:
  std::vector<std::int32_t> tokens(const char* role, std::span<const std::string> texts, std::int32_t last_token) const;
  /// The rendered text behind the assistant's content.
  std::string behind_turn(const char* role, std::span<const std::string> texts) const;
  /// The token whose text starts at `at`, if it is a special one; null: none.
  const std::pair<std::string, std::int32_t>* special_at(std::string_view text, std::size_t at) const;
  std::string without_specials(std::string_view text) const;

  text::chat_template chat_;
  text::tokenizer tokenizer_;
  reply_options options_;
  std::vector<std::pair<std::string, std::int32_t>> special_;  ///< longest first
  std::int32_t end_ = -1;                                      ///< the template's end mark
};

}  // namespace agent
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_AGENT)
#include <algorithm>
#include <cstddef>

#include "rlcore/core/error.hpp"
#include "rlcore/text/message.hpp"

RLCORE_BEGIN
namespace agent {
namespace detail {

/// Private-use characters, which no tool prints: the place of the assistant's content, and what keeps the text of a
/// tool from spelling a special token.
inline constexpr std::string_view content_mark = "\U0010FFF0content\U0010FFF1", break_mark = "\U0010FFF2";

}  // namespace detail

RLCORE_INLINE reply_tokens::reply_tokens(text::chat_template chat, text::tokenizer tokenizer,
                                         std::span<const std::int32_t> eos_ids, const reply_options& options)
    : chat_(std::move(chat)), tokenizer_(std::move(tokenizer)), options_(options) {
  if (options_.tools && !chat_.has_tools())
    throw config_error(
        "the chat template of the model shows no tools; rlcore.chat_template=qwen2.5 names one that does");
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(tokenizer_.vocab_size()); ++id)
    if (tokenizer_.is_special(id)) special_.emplace_back(tokenizer_.token_of(id), id);
  std::ranges::stable_sort(special_, std::ranges::greater(), [](const auto& s) { return s.first.size(); });
  const std::vector<std::string> example{"1"};
  const std::string behind = behind_turn(options_.tools ? "tool" : "user", example);
  for (const std::int32_t id : eos_ids)
    if (const std::string_view mark = tokenizer_.token_of(id); end_ < 0 && !mark.empty() && behind.starts_with(mark))
      end_ = id;
  if (end_ < 0)
    throw config_error("the chat template ends a turn of the assistant by '" + behind.substr(0, 20) +
                       "', which is no end token of the model: it cannot have several turns");
}

RLCORE_INLINE std::string reply_tokens::behind_turn(const char* role, std::span<const std::string> texts) const {
  std::vector<text::message> messages{{"user", "-"}, {"assistant", std::string(detail::content_mark)}};
  for (const std::string& t : texts) messages.push_back({role, t});
  const std::string all =
      chat_.render(messages, {.add_generation_prompt = true, .enable_thinking = options_.enable_thinking});
  const std::size_t at = all.find(detail::content_mark);
  if (at == all.npos)
    throw config_error("the chat template changes what the assistant wrote: it cannot have several turns");
  return all.substr(at + detail::content_mark.size());
}

RLCORE_INLINE const std::pair<std::string, std::int32_t>* reply_tokens::special_at(std::string_view text,
                                                                                   std::size_t at) const {
  const std::string_view rest = text.substr(at);
  for (const auto& s : special_)
    if (!s.first.empty() && s.first[0] == rest[0] && rest.starts_with(s.first)) return &s;
  return nullptr;
}

/// `text` with a break mark inside every special token that it spells.
RLCORE_INLINE std::string reply_tokens::without_specials(std::string_view text) const {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at).starts_with(detail::break_mark)) {
      at += detail::break_mark.size() - 1;
      continue;
    }
    const bool spells = special_at(text, at) != nullptr;
    out += text[at];
    if (!spells) continue;
    for (; at + 1 < text.size() && (static_cast<unsigned char>(text[at + 1]) & 0xC0) == 0x80; ++at) out += text[at + 1];
    out += detail::break_mark;
  }
  return out;
}

RLCORE_INLINE std::vector<std::int32_t> reply_tokens::tokens(const char* role, std::span<const std::string> texts,
                                                             std::int32_t last_token) const {
  std::vector<std::string> shown(texts.begin(), texts.end());
  if (!options_.special)
    for (std::string& t : shown) t = without_specials(t);
  const std::string behind = behind_turn(role, shown);
  std::string_view rest = std::string_view(behind).substr(tokenizer_.token_of(end_).size());
  if (last_token != end_ || !options_.newline) {  // up to the next special token
    std::size_t at = 0;
    while (at < rest.size() && special_at(rest, at) == nullptr) ++at;
    if (at < rest.size()) rest.remove_prefix(at);
  }
  std::vector<std::int32_t> ids;
  std::string plain;
  const auto flush = [&] {
    const std::vector<std::int32_t> more = tokenizer_.encode(plain, options_.special);
    ids.insert(ids.end(), more.begin(), more.end());
    plain.clear();
  };
  for (std::size_t at = 0; at < rest.size();) {
    if (const auto* special = special_at(rest, at)) {
      flush();
      ids.push_back(special->second);
      at += special->first.size();
    } else if (rest.substr(at).starts_with(detail::break_mark)) {
      at += detail::break_mark.size();
    } else {
      plain += rest[at++];
    }
  }
  flush();
  return ids;
}

}  // namespace agent
RLCORE_END
#endif
