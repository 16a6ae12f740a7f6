// Messages of a conversation.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace text {

/// A call of a tool by the assistant.
struct tool_call {
  std::string name;
  nlohmann::ordered_json arguments;  ///< usually an object; a string is JSON text already
  nlohmann::ordered_json further{};  ///< an object of what else the call has, such as its id, or null
};

/// One turn of a conversation.
struct message {
  std::string role;  ///< system, user, assistant or tool
  std::string content;
  std::optional<std::string> reasoning_content{};  ///< without it, a <think> block in `content` is taken apart
  std::vector<tool_call> tool_calls{};
  nlohmann::ordered_json further{};  ///< an object of what else the message has, such as a name, or null
};

namespace detail {

/// The members of `json` but the ones named and those that are null, or null if nothing is left.
inline nlohmann::ordered_json members_but(const nlohmann::ordered_json& json,
                                          std::initializer_list<std::string_view> known) {
  nlohmann::ordered_json rest;
  for (const auto& [key, item] : json.items())
    if (!item.is_null() && std::find(known.begin(), known.end(), key) == known.end()) rest[key] = item;
  return rest;
}

}  // namespace detail

/// Messages from their usual JSON form: [{"role", "content", "reasoning_content", "tool_calls": [{"function":
/// {"name", "arguments"}} or {"name", "arguments"}]}]; other keys are kept for the template. A null content is an empty
/// one. Throws data_error, naming the message, for other keys' types and for content in parts (images).
inline std::vector<message> messages_from_json(const nlohmann::ordered_json& json) {
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
    message m{*role,
              text("content").value_or(""),
              text("reasoning_content"),
              {},
              detail::members_but(j, {"role", "content", "reasoning_content", "tool_calls"})};
    const auto calls = j.find("tool_calls");
    if (calls != j.end() && !calls->is_null()) {
      if (!calls->is_array()) throw data_error(where + ".tool_calls: expected a list, found " + calls->type_name());
      for (const auto& call : *calls) {
        const auto& function = call.is_object() && call.contains("function") ? call["function"] : call;
        if (!function.is_object() || !function.contains("name") || !function["name"].is_string() ||
            !function.contains("arguments"))
          throw data_error(where + ".tool_calls: expected {\"name\", \"arguments\"}, found " + call.dump());
        m.tool_calls.push_back({function["name"].template get<std::string>(), function["arguments"],
                                detail::members_but(call, {"name", "arguments", "function"})});
      }
    }
    messages.push_back(std::move(m));
  }
  return messages;
}

}  // namespace text
RLCORE_END
