// Converts preference data columns to text and tokens by OpenRLHF's rules.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/data/image_rows.hpp"
#include "rlcore/data/jsonl.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/dropped_parts.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/train/preference/rows.hpp"

RLCORE_BEGIN
namespace train {

/// How rows become tokens.
struct row_rules {
  const text::tokenizer& tokenizer;
  std::optional<text::chat_template> chat{};    ///< --apply_chat_template
  std::optional<std::string> input_template{};  ///< --input_template, one {} in it
  std::size_t max_len = 512;                    ///< --max_len, in tokens
  data::image_settings images{};                ///< of rows with images

  /// The end of every sequence. Throws format_error if the tokenizer names none.
  std::int32_t eos() const {
    if (const auto id = tokenizer.eos_id()) return *id;
    throw format_error("the tokenizer names no eos_token (tokenizer_config.json)");
  }

  /// The tokens of a text with placeholders for the images `shown`. Throws data_error with `where`
  /// unless there is one place for each.
  std::vector<std::int32_t> tokens(std::string_view text, std::span<const data::image_pointer> shown,
                                   const std::string& where) const {
    std::vector<std::int32_t> ids = tokenizer.encode(text);
    data::check_image_tokens(ids, shown.size(), images, where);
    return data::expand_image_tokens(std::move(ids), shown, images);
  }
  /// At most max_len of them, from the start; sets `cut` if there were more. Throws data_error if an image would be
  /// cut.
  std::vector<std::int32_t> head(std::string_view text, bool& cut, std::span<const data::image_pointer> shown = {},
                                 const std::string& where = "a text") const;

  /// The text without line ends at its end, then " " and the end token unless it ends with that; the head of it, whose
  /// last token is made the end token, whatever was cut.
  std::vector<std::int32_t> ended(std::string text, bool& cut, std::span<const data::image_pointer> shown = {},
                                  const std::string& where = "a text") const;
};

/// Python's "...{}...".format(x): {{ and }} are braces.
std::string fill_template(std::string_view form, std::string_view x);

/// Throws config_error unless the template has one {} and no other single brace.
void check_template(std::string_view form);

/// A column as messages: a list of {role, content}; a text is one message of `role`. Contents may have parts if the
/// model reads images. Throws data_error.
std::vector<text::message> message_column(const data::row& from, const std::string& key, const char* role,
                                          const row_rules& rules, const std::string& where);

/// A column as text, for rows without chat template. Throws data_error.
const std::string& text_column(const data::row& from, const std::string& key, const std::string& where);

/// Throws data_error with `where` unless all images of a row stand in the prompt: answers are words.
void check_answer_is_words(std::span<const text::message> prompt, std::size_t images, const std::string& where);

/// The conversation as text. Throws data_error if the chat template drops what the row teaches.
std::string taught_text(const row_rules& rules, std::span<const text::message> conversation);

/// Splits the rendered conversation after its prompt. Throws data_error if it does not begin with the prompt.
prompt_and_answer split_conversation(const row_rules& rules, std::span<const text::message> prompt,
                                     std::span<const text::message> conversation, const std::string& where);

/// Throws data_error with `where` in front of the message, unless it is there already.
[[noreturn]] inline void at_row(const std::string& where, const error& e) {
  const std::string message = e.what();
  throw data_error(message.starts_with(where) ? message : where + ": " + message);
}

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::vector<std::int32_t> row_rules::head(std::string_view text, bool& cut,
                                                        std::span<const data::image_pointer> shown,
                                                        const std::string& where) const {
  std::vector<std::int32_t> ids = tokens(text, shown, where);
  if (ids.size() <= max_len) return ids;
  // The last token that stays may become the end token.
  const auto lost = ids.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(max_len, 1) - 1);
  if (!shown.empty() && std::find(lost, ids.end(), images.token) != ids.end())
    throw data_error(where + ": " + std::to_string(ids.size()) + " tokens with images, but --max_len is " +
                     std::to_string(max_len) + "; images are not cut");
  ids.resize(max_len), cut = true;
  return ids;
}

RLCORE_INLINE std::vector<std::int32_t> row_rules::ended(std::string text, bool& cut,
                                                         std::span<const data::image_pointer> shown,
                                                         const std::string& where) const {
  while (text.ends_with('\n')) text.pop_back();
  const std::int32_t end = eos();
  const std::string& mark = tokenizer.token_of(end);
  if (!text.ends_with(mark)) text += " " + mark;
  std::vector<std::int32_t> ids = head(text, cut, shown, where);
  if (!ids.empty()) ids.back() = end;
  return ids;
}

RLCORE_INLINE std::string fill_template(std::string_view form, std::string_view x) {
  std::string out;
  for (std::size_t i = 0; i < form.size(); ++i) {
    const std::string_view two = form.substr(i, 2);
    if (two == "{}") {
      out += x, ++i;
    } else {
      out += form[i];
      if (two == "{{" || two == "}}") ++i;
    }
  }
  return out;
}

RLCORE_INLINE void check_template(std::string_view form) {
  std::size_t places = 0;
  bool good = true;
  for (std::size_t i = 0; i < form.size(); ++i) {
    if (form[i] != '{' && form[i] != '}') continue;
    const std::string_view two = form.substr(i, 2);
    places += two == "{}";
    good = good && (two == "{}" || two == "{{" || two == "}}");
    ++i;
  }
  if (!good || places != 1)
    throw config_error("--input_template '" + data::printable(form) +
                       "': expected one {} where the prompt goes (braces are written {{ and }})");
}

RLCORE_INLINE std::vector<text::message> message_column(const data::row& from, const std::string& key, const char* role,
                                                        const row_rules& rules, const std::string& where) {
  const data::row& value = data::column(from, key, where);
  if (value.is_string()) return {text::message{role, value.get<std::string>()}};
  const auto form = rules.images.processor ? text::content_form::parts : text::content_form::text;
  try {
    if (value.is_array() && !value.empty()) return text::messages_from_json(text::stored_messages(value), form);
  } catch (const data_error& e) {
    throw data_error(where + ": column '" + data::printable(key) + "': " + e.what());
  }
  throw data_error(where + ": column '" + data::printable(key) + "' is " + data::printable(text::json_text(value)) +
                   "; expected a list of {role, content} or a text");
}

RLCORE_INLINE const std::string& text_column(const data::row& from, const std::string& key, const std::string& where) {
  const data::row& value = data::column(from, key, where);
  if (value.is_array())
    throw data_error(where + ": column '" + data::printable(key) +
                     "' is a list; for message lists pass --apply_chat_template");
  return data::string_column(from, key, where);
}

RLCORE_INLINE void check_answer_is_words(std::span<const text::message> prompt, std::size_t images,
                                         const std::string& where) {
  std::size_t shown = 0;
  for (const text::message& m : prompt) shown += m.images();
  if (shown == images) return;
  throw data_error(where + ": " + std::to_string(images - shown) + " of " + std::to_string(images) +
                   (images == 1 ? " image" : " images") + " in an answer; expected all <image> marks in the prompt");
}

RLCORE_INLINE std::string taught_text(const row_rules& rules, std::span<const text::message> conversation) {
  const std::vector<text::message> accepted = rules.chat->accepted(conversation);
  std::vector<text::dropped_part> dropped;
  std::string text = rules.chat->render(accepted, {}, &dropped);
  for (const text::dropped_part& part : dropped)
    if (text::is_taught(part, accepted)) throw data_error(rules.chat->text_of(part));
  return text;
}

RLCORE_INLINE prompt_and_answer split_conversation(const row_rules& rules, std::span<const text::message> prompt,
                                                   std::span<const text::message> conversation,
                                                   const std::string& where) {
  if (prompt.empty()) throw data_error(where + ": a conversation of one message has no prompt");
  prompt_and_answer out{rules.chat->render(rules.chat->accepted(prompt), {.add_generation_prompt = true}), {}};
  const std::string whole = taught_text(rules, conversation);
  if (!whole.starts_with(out.prompt))
    throw data_error(where + ": the chat template writes the prompt otherwise once the answer follows");
  out.answer = whole.substr(out.prompt.size());
  return out;
}

}  // namespace train
RLCORE_END
#endif
