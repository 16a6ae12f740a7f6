// The parts of a conversation that a chat template does not write.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/message.hpp"

RLCORE_BEGIN
namespace text {

/// A part of a message that a template does not write.
struct dropped_part {
  /// content: all of it; call: a tool call; thoughts: reasoning_content, or a part of a content between tags, which
  /// templates cut out as thoughts; member: another member of the message, such as its name.
  enum class kind { content, call, thoughts, member };

  std::size_t message = 0;
  kind what = kind::content;
  std::string label{};  ///< what it is: "reasoning_content", "the content of role 'tool'"
  std::string part{};   ///< the same with its beginning, for messages about this part
};

/// All of the content of message number `i`.
inline dropped_part dropped_content(std::size_t i, const std::string& role) {
  const std::string label = "the content of role '" + role + "'";
  return {i, dropped_part::kind::content, label, label};
}

/// The member `key` of message number `i`.
inline dropped_part dropped_member(std::size_t i, const std::string& key) {
  const std::string label = "the member '" + key + "'";
  return {i, dropped_part::kind::member, label, label};
}

/// The beginning of a text, for messages: at most 40 bytes in one line.
inline std::string beginning_of(std::string_view text) {
  constexpr std::size_t most = 40;
  text = text.substr(std::min(text.find_first_not_of(" \t\r\n\f\v"), text.size()));
  std::size_t end = std::min(text.size(), most);
  while (end > 0 && end < text.size() && (text[end] & '\xC0') == '\x80') --end;
  std::string line(text.substr(0, end));
  for (char& c : line) c = c == '\n' || c == '\r' || c == '\t' ? ' ' : c;
  while (line.ends_with(' ')) line.pop_back();
  return end < text.size() ? line + "..." : line;
}

/// Whether a part of a prompt is one that the model has to read: what others than the assistant said.
inline bool is_needed(const dropped_part& part, std::span<const message> prompt) {
  return part.what == dropped_part::kind::content && prompt[part.message].role != "assistant";
}

/// Whether a part of a conversation is one that a row teaches: all that the assistant said and called, and the thoughts
/// behind the last question. Templates leave out earlier thoughts on purpose.
inline bool is_taught(const dropped_part& part, std::span<const message> conversation) {
  if (part.what == dropped_part::kind::member) return false;
  if (part.what != dropped_part::kind::thoughts) return true;
  return std::ranges::none_of(conversation.subspan(part.message), [](const message& m) { return m.role == "user"; });
}

/// A copy of a conversation with a mark in every part that a template should write: what the template makes of the
/// copy shows which parts it drops. Marks are digits behind the last letter of a part, so templates that strip blanks,
/// change cases, quote texts or look for tags treat the copy as they treat the conversation.
class marked_conversation {
 public:
  /// `text` is the conversation as rendered: the marks are digits that do not occur in it.
  marked_conversation(std::span<const message> messages, std::string_view text);

  /// The copy.
  std::span<const message> messages() const noexcept { return messages_; }
  /// The parts whose marks are not in the rendered copy, in order; of a content without any of its marks, one.
  std::vector<dropped_part> missing_in(std::string_view rendered) const;

 private:
  /// One mark and what it stands in. A piece is a part of a content between two tags.
  struct place {
    dropped_part part;
    bool piece = false, between_tags = false;
  };

  static constexpr std::size_t digits = 9, most_pieces = 64;  // of a text: what follows them is one piece

  std::string mark(place p);
  /// `text` with a mark in each piece between tags such as <think>.
  std::string marked_pieces(const std::string& text, std::size_t message);
  void mark_members(message& m, std::size_t i);

  std::string base_;
  std::vector<message> messages_;
  std::vector<place> places_;
};

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
#include <functional>
#include <optional>
#include <utility>

RLCORE_BEGIN
namespace text::detail {

/// The end of a tag that begins at `at`, such as <think>, </think>, <|channel|> or [/THINK]; `at` if none does.
inline std::size_t end_of_tag(std::string_view text, std::size_t at) {
  constexpr std::size_t longest = 40;
  const char open = text[at];
  if (open != '<' && open != '[') return at;
  for (std::size_t i = at + 1; i < text.size() && i - at <= longest; ++i) {
    const char c = text[i];
    if (c == (open == '<' ? '>' : ']')) return i == at + 1 ? at : i + 1;
    const bool in_brackets = (c >= 'A' && c <= 'Z') || c == '_' || c == '/';
    const bool in_angles = c > ' ' && c != '<' && static_cast<unsigned char>(c) < 0xF0;
    if (!(open == '<' ? in_angles : in_brackets)) return at;
  }
  return at;
}

/// Where a mark may stand in text[begin, end): behind its last letter or digit, else behind its last visible character;
/// npos if all of it is blank.
inline std::size_t place_of_mark(std::string_view text, std::size_t begin, std::size_t end) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c & '\x80') != 0;
  };
  const std::string_view piece = text.substr(begin, end - begin);
  for (std::size_t i = piece.size(); i-- > 0;)
    if (is_word(piece[i])) return begin + i + 1;
  const std::size_t visible = piece.find_last_not_of(" \t\r\n\f\v");
  return visible == piece.npos ? piece.npos : begin + visible + 1;
}

}  // namespace text::detail

namespace text {

RLCORE_INLINE marked_conversation::marked_conversation(std::span<const message> messages, std::string_view text)
    : messages_(messages.begin(), messages.end()) {
  // Digits of a hash, which hardly any text contains; the next number is tried if this one does.
  for (std::size_t number = std::hash<std::string_view>()(text); base_.empty() || text.find(base_) != text.npos;)
    base_ = std::to_string(number++);
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    message& m = messages_[i];
    if (m.parts.empty()) m.content = marked_pieces(m.content, i);
    for (message_part& p : m.parts)
      if (!p.image) p.text = marked_pieces(p.text, i);
    mark_members(m, i);
    for (tool_call& call : m.tool_calls) {
      const std::string mark_of_call =
          mark({{i, dropped_part::kind::call, "a tool call", "a tool call of " + call.name}});
      if (call.arguments.is_object())
        call.arguments["argument" + mark_of_call] = "value";
      else if (call.arguments.is_string())
        call.arguments = call.arguments.get<std::string>() + mark_of_call;
      else
        call.arguments = mark_of_call;
    }
  }
}

RLCORE_INLINE std::string marked_conversation::mark(place p) {
  const std::string number = std::to_string(places_.size());
  places_.push_back(std::move(p));
  return base_ + std::string(digits - std::min(number.size(), digits), '0') + number;
}

RLCORE_INLINE std::string marked_conversation::marked_pieces(const std::string& text, std::size_t message) {
  std::string marked;
  std::size_t done = 0, begin = 0;
  const auto close = [&](std::size_t end, bool tag) {
    const std::size_t at = detail::place_of_mark(text, begin, end);
    if (at == text.npos) return;
    marked.append(text, done, at - done);
    done = at;
    const std::string shown = beginning_of(std::string_view(text).substr(begin, end - begin));
    const std::string label = "a part of the content";
    marked += mark({{message, dropped_part::kind::thoughts, label, label + " (\"" + shown + "\")"}, true, tag});
  };
  std::size_t pieces = 1;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = pieces < most_pieces ? detail::end_of_tag(text, at) : at;
    if (end == at) {
      ++at;
      continue;
    }
    close(at, true);
    begin = at = end;
    ++pieces;
  }
  close(text.size(), false);
  return marked.append(text, done);
}

RLCORE_INLINE void marked_conversation::mark_members(message& m, std::size_t i) {
  const std::optional<std::string> thoughts = m.reasoning_content;
  if (thoughts)
    if (const std::size_t at = detail::place_of_mark(*thoughts, 0, thoughts->size()); at != std::string::npos)
      m.reasoning_content->insert(at,
                                  mark({{i, dropped_part::kind::thoughts, "reasoning_content", "reasoning_content"}}));
  if (!m.further.is_object()) return;
  for (auto& [key, item] : m.further.get_ref<nlohmann::ordered_json::object_t&>()) {
    if (!item.is_string() || item.get_ref<const std::string&>().empty()) continue;
    if (thoughts && item == *thoughts)  // another name of the same
      item = *m.reasoning_content;
    else if (key != "tool_call_id" && key != "id" && key != "type")
      item = item.get<std::string>() + mark({dropped_member(i, key)});
  }
}

RLCORE_INLINE std::vector<dropped_part> marked_conversation::missing_in(std::string_view rendered) const {
  std::vector<bool> found(places_.size());
  for (std::size_t at = rendered.find(base_); at != rendered.npos; at = rendered.find(base_, at + 1)) {
    std::size_t number = 0;
    const std::string_view written = rendered.substr(at + base_.size(), digits);
    for (const char c : written)
      number = c >= '0' && c <= '9' ? 10 * number + static_cast<std::size_t>(c - '0') : SIZE_MAX / 16;
    if (written.size() == digits && number < found.size()) found[number] = true;
  }
  // A content is lost if none of its pieces is left, but an answer may consist of thoughts, which end with a tag.
  std::vector<char> kept(messages_.size()), answers(messages_.size());
  for (std::size_t k = 0; k < places_.size(); ++k) {
    if (!places_[k].piece) continue;
    const std::size_t i = places_[k].part.message;
    if (found[k]) kept[i] = 1;
    if (!places_[k].between_tags || messages_[i].role != "assistant") answers[i] = 1;
  }
  std::vector<dropped_part> missing;
  for (std::size_t k = 0; k < places_.size(); ++k) {
    if (found[k]) continue;
    const std::size_t i = places_[k].part.message;
    if (!places_[k].piece || kept[i] != 0 || answers[i] == 0)
      missing.push_back(places_[k].part);
    else if (missing.empty() || missing.back().message != i || missing.back().what != dropped_part::kind::content)
      missing.push_back(dropped_content(i, messages_[i].role));
  }
  return missing;
}

}  // namespace text
RLCORE_END
#endif
