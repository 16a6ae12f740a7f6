// Chat messages, and the options of rendering them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/big_integer.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace text {

/// A call of a tool by the assistant.
struct tool_call {
  std::string name;
  nlohmann::ordered_json arguments;  ///< usually an object; a string is no JSON of one
  nlohmann::ordered_json further{};  ///< an object with further fields of the call, such as its id, or null
};

/// A part of a message: a text or an image placeholder.
struct message_part {
  std::string text;
  bool image = false;
};

/// The image placeholder in a text.
inline constexpr std::string_view image_mark = "<image>";

/// One turn of a conversation.
struct message {
  std::string role;  ///< system, user, assistant or tool
  std::string content;
  std::optional<std::string> reasoning_content{};  ///< without it, a <think> block in `content` is taken apart
  std::vector<tool_call> tool_calls{};
  nlohmann::ordered_json further{};   ///< an object with further fields of the message, such as a name, or null
  std::vector<message_part> parts{};  ///< content parts for the template, unless it is plain text

  /// The number of image parts.
  std::size_t images() const noexcept {
    return static_cast<std::size_t>(
        std::count_if(parts.begin(), parts.end(), [](const message_part& p) { return p.image; }));
  }
};

/// The number of image placeholders in a text.
std::size_t count_image_marks(std::string_view text) noexcept;

/// Splits a text content at its image marks; drops empty parts. `strip` removes white space from both ends of the
/// parts, as OpenRLHF does. A content without marks stays a text.
void cut_at_image_marks(message& m, bool strip = false);

namespace detail {

/// The members of `json` but the ones named and those that are null, or null if nothing is left.
nlohmann::ordered_json members_but(const nlohmann::ordered_json& json, std::initializer_list<std::string_view> known);

/// A content in parts: [{"type": "text", "text"} or {"type": "image"}]; members that are null are not there. Throws
/// data_error for videos, and for images that stand in the content itself.
std::vector<message_part> parts_from_json(const nlohmann::ordered_json& json, const std::string& where);

/// The text of parts, with marks where images stand.
inline std::string joined(const std::vector<message_part>& parts) {
  std::string text;
  for (const message_part& p : parts) text += p.image ? image_mark : std::string_view(p.text);
  return text;
}

}  // namespace detail

/// `json` without members that are null, at any depth: tables (Arrow, Parquet) put nulls in place of missing keys, as
/// in arguments of calls and in schemas of tools. Nulls in lists stay. TRL's trainers do the same.
nlohmann::ordered_json without_null_members(const nlohmann::ordered_json& json);

/// A list of messages as tables store it: without null members, and with the object in the place of a message that is
/// JSON text, as the JSON type of `datasets` keeps it.
nlohmann::ordered_json stored_messages(const nlohmann::ordered_json& list);

/// Accepted content forms: only text, or also a list of parts with images.
enum class content_form { text, parts };

/// Messages from their usual JSON form: [{"role", "content", "reasoning_content", "tool_calls": [{"function":
/// {"name", "arguments"}} or {"name", "arguments"}]}]; other keys are kept for the template. A null content is an empty
/// one. Thoughts may be named reasoning_content, thinking or reasoning, as in transformers. Arguments that are JSON
/// text become its value, an empty text and no arguments an empty object, as in vLLM: most templates would quote the
/// text once more. Throws data_error, naming the message, for other keys' types, and for content in parts unless `form`
/// allows it.
std::vector<message> messages_from_json(const nlohmann::ordered_json& json, content_form form = content_form::text);

/// Rendering options.
struct render_options {
  bool add_generation_prompt = false;     ///< open the assistant's next turn at the end
  std::optional<bool> enable_thinking{};  ///< unset: the template's default
  std::vector<nlohmann::ordered_json> tools{};
  bool add_vision_id = false;          ///< "Picture 1: " and so on in front of images
  nlohmann::ordered_json variables{};  ///< an object with further variables of the template, or null
};

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text {

RLCORE_INLINE std::size_t count_image_marks(std::string_view text) noexcept {
  std::size_t count = 0;
  for (std::size_t at = text.find(image_mark); at != text.npos; at = text.find(image_mark, at + image_mark.size()))
    ++count;
  return count;
}

RLCORE_INLINE void cut_at_image_marks(message& m, bool strip) {
  if (!m.parts.empty() || m.content.find(image_mark) == m.content.npos) return;
  std::string_view rest = m.content;
  const auto add = [&](std::string_view text) {
    if (strip) {
      constexpr std::string_view space = " \t\r\n\f\v";
      const std::size_t first = std::min(text.find_first_not_of(space), text.size());
      text = text.substr(first, text.find_last_not_of(space) + 1 - first);
    }
    if (!text.empty()) m.parts.push_back({std::string(text)});
  };
  for (std::size_t at = rest.find(image_mark); at != rest.npos; at = rest.find(image_mark)) {
    add(rest.substr(0, at));
    m.parts.push_back({"", true});
    rest.remove_prefix(at + image_mark.size());
  }
  add(rest);
}

}  // namespace text

namespace text::detail {

RLCORE_INLINE nlohmann::ordered_json members_but(const nlohmann::ordered_json& json,
                                                 std::initializer_list<std::string_view> known) {
  nlohmann::ordered_json::object_t rest;  // appended to: its operator[] compares a key with all before it
  for (const auto& [key, item] : json.items())
    if (!item.is_null() && std::find(known.begin(), known.end(), key) == known.end()) rest.emplace_back(key, item);
  return rest.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(std::move(rest));
}

RLCORE_INLINE std::vector<message_part> parts_from_json(const nlohmann::ordered_json& json, const std::string& where) {
  std::vector<message_part> parts;
  for (const auto& j : json) {
    const std::string place = where + "[" + std::to_string(parts.size()) + "]";
    const auto member = [&](const char* key) {
      const auto found = j.find(key);
      return found == j.end() || found->is_null() ? nullptr : &*found;
    };
    const auto is = [&](const char* type) { return *member("type") == type; };
    if (!j.is_object() || member("type") == nullptr || !(is("text") || is("image")))
      throw data_error(place + R"(: expected {"type": "text", "text"} or {"type": "image"})");
    for (const auto& [key, item] : j.items())
      if (key != "type" && key != "text" && !item.is_null())
        throw data_error(place + ": \"" + key + "\" has no place here; images stand in the column of images");
    const auto* text = member("text");
    if (is("text") ? text == nullptr || !text->is_string() : text != nullptr)
      throw data_error(place + R"(.text: expected a string for {"type": "text"}, none for {"type": "image"})");
    parts.push_back({text == nullptr ? "" : text->get<std::string>(), text == nullptr});
  }
  return parts;
}

/// The arguments of a call as templates expect them.
inline nlohmann::ordered_json call_arguments(const nlohmann::ordered_json& function) {
  const auto sent = function.find("arguments");
  if (sent == function.end() || sent->is_null() || *sent == "") return nlohmann::ordered_json::object();
  if (!sent->is_string()) return *sent;
  nlohmann::ordered_json read = try_parse_exact_json<nlohmann::ordered_json>(sent->get_ref<const std::string&>());
  if (read.is_null()) return nlohmann::ordered_json::object();
  return read.is_discarded() ? *sent : read;
}

}  // namespace text::detail

namespace text {

RLCORE_INLINE nlohmann::ordered_json without_null_members(const nlohmann::ordered_json& json) {
  if (json.is_array()) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto& item : json) list.push_back(without_null_members(item));
    return list;
  }
  if (!json.is_object()) return json;
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [key, item] : json.items())
    if (!item.is_null()) object[key] = without_null_members(item);
  return object;
}

RLCORE_INLINE nlohmann::ordered_json stored_messages(const nlohmann::ordered_json& list) {
  nlohmann::ordered_json messages = without_null_members(list);
  if (!messages.is_array()) return messages;
  for (auto& m : messages) {
    if (!m.is_string()) continue;
    auto object = try_parse_exact_json<nlohmann::ordered_json>(m.get_ref<const std::string&>());
    if (object.is_object()) m = std::move(object);
  }
  return messages;
}

RLCORE_INLINE std::vector<message> messages_from_json(const nlohmann::ordered_json& json, content_form form) {
  if (!json.is_array()) throw data_error(std::string("messages: expected a list, found ") + json.type_name());
  std::vector<message> messages;
  for (const auto& j : json) {
    const std::string where = "messages[" + std::to_string(messages.size()) + "]";
    if (!j.is_object()) throw data_error(where + ": expected an object, found " + j.type_name());
    const auto text = [&](const char* key) -> std::optional<std::string> {
      const auto found = j.find(key);
      if (found == j.end() || found->is_null()) return std::nullopt;
      if (!found->is_string()) throw data_error(where + '.' + key + ": expected a string, found " + found->type_name());
      return found->template get<std::string>();
    };
    const auto role = text("role");
    if (!role) throw data_error(where + ".role: expected a string, found none");
    const bool parted = form == content_form::parts && j.contains("content") && j["content"].is_array();
    std::optional<std::string> thoughts = text("reasoning_content");
    for (const char* name : {"thinking", "reasoning"})
      if (!thoughts && j.contains(name) && j[name].is_string()) thoughts = j[name].template get<std::string>();
    message m{*role,
              parted ? "" : text("content").value_or(""),
              std::move(thoughts),
              {},
              detail::members_but(j, {"role", "content", "reasoning_content", "tool_calls"})};
    const auto calls = j.find("tool_calls");
    if (calls != j.end() && !calls->is_null()) {
      if (!calls->is_array()) throw data_error(where + ".tool_calls: expected a list, found " + calls->type_name());
      for (const auto& call : *calls) {
        const auto& function = call.is_object() && call.contains("function") ? call["function"] : call;
        if (!function.is_object() || !function.contains("name") || !function["name"].is_string())
          throw data_error(where + ".tool_calls: expected {\"name\", \"arguments\"}, found " + json_text(call));
        m.tool_calls.push_back({function["name"].template get<std::string>(), detail::call_arguments(function),
                                detail::members_but(call, {"name", "arguments", "function"})});
      }
    }
    if (parted) {
      m.parts = detail::parts_from_json(j["content"], where + ".content");
      m.content = detail::joined(m.parts);
    }
    messages.push_back(std::move(m));
  }
  return messages;
}

}  // namespace text
RLCORE_END
#endif
