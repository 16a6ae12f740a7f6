// Writes the parts of a conversation in the style of each family.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/chat_family.hpp"
#include "rlcore/text/message.hpp"
#include "rlcore/text/python_json.hpp"

RLCORE_BEGIN
namespace text {

/// Writes turns in one chat style, like the family's Jinja template for messages whose content is a string.
class chat_turns {
 public:
  /// Writes turns in `style`.
  explicit chat_turns(const chat_style& style) : family_(style.family), default_system_(style.default_system) {}

  bool has_thinking() const noexcept { return family_ == chat_family::qwen3 || family_ == chat_family::minimind; }
  bool has_tools() const noexcept { return has_thinking() || family_ == chat_family::qwen2_5; }

  /// Throws data_error when message number `i` has a part that this style would drop.
  void check(const message& m, std::size_t i, std::string_view name) const {
    const auto fail = [&](const std::string& part) {
      throw data_error("messages[" + std::to_string(i) + "]: " + part + " has no place in chat template " +
                       std::string(name));
    };
    const bool assistant = m.role == "assistant";
    if (has_tools() && !assistant && m.role != "user" && m.role != "system" && m.role != "tool")
      fail("role '" + m.role + "'");
    if (!m.tool_calls.empty() && !(has_tools() && assistant)) fail("a tool call");
    if (m.reasoning_content && !(has_thinking() && assistant)) fail("reasoning_content");
  }

  /// Writes the part before the first turn: the default system turn, or the system turn that lists the tools.
  void open(std::string& text, std::span<const message> messages,
            const std::vector<nlohmann::ordered_json>& tools) const {
    const bool system = messages[0].role == "system";
    if (tools.empty()) {
      if (system) return;  // written as a turn of its own
      if (!default_system_.empty()) frame(text, "system", default_system_);
      return;
    }
    text += "<|im_start|>system\n";
    if (family_ == chat_family::qwen2_5) {
      (text += system ? messages[0].content : std::string(default_system_)) += "\n\n";
    } else if (system) {
      (text += messages[0].content) += "\n\n";
    }
    text +=
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with "
        "function "
        "signatures within <tools></tools> XML tags:\n<tools>";
    for (const auto& tool : tools) {
      text += '\n';
      append_python_json(text, tool);
    }
    text +=
        "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
        "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": "
        "<args-json-object>}\n</tool_call><|im_end|>\n";
  }

  /// Writes turn number `i`. `tools` is true if the opening listed tools, and with them the system message.
  void turn(std::string& text, std::span<const message> messages, std::size_t i, bool tools) const {
    const message& m = messages[i];
    if (i == 0 && m.role == "system" && tools) return;
    if (!has_tools() || m.role == "user" || m.role == "system") return frame(text, m.role, m.content);
    if (m.role == "tool") {
      if (i == 0 || messages[i - 1].role != "tool") text += "<|im_start|>user";
      ((text += "\n<tool_response>\n") += m.content) += "\n</tool_response>";
      if (i + 1 == messages.size() || messages[i + 1].role != "tool") text += "<|im_end|>\n";
      return;
    }
    if (family_ == chat_family::qwen2_5) {
      assistant_without_thinking(text, m);
    } else {
      assistant_with_thinking(text, messages, i);
    }
  }

  /// Writes the open header of the assistant's next turn.
  void generation_prompt(std::string& text, std::optional<bool> enable_thinking) const {
    text += "<|im_start|>assistant\n";
    if (family_ == chat_family::qwen3 && !enable_thinking.value_or(true)) text += empty_thoughts;
    if (family_ == chat_family::minimind) text += enable_thinking.value_or(false) ? "<think>\n" : empty_thoughts;
  }

 private:
  static constexpr const char* empty_thoughts = "<think>\n\n</think>\n\n";

  static void frame(std::string& text, std::string_view role, std::string_view content) {
    ((((text += "<|im_start|>") += role) += '\n') += content) += "<|im_end|>\n";
  }

  static void assistant_without_thinking(std::string& text, const message& m) {
    if (m.tool_calls.empty()) return frame(text, m.role, m.content);
    text += "<|im_start|>assistant";
    if (!m.content.empty()) (text += '\n') += m.content;
    for (const tool_call& call : m.tool_calls) {
      ((text += "\n<tool_call>\n{\"name\": \"") += call.name) += "\", \"arguments\": ";
      append_python_json(text, call.arguments);
      text += "}\n</tool_call>";
    }
    text += "<|im_end|>\n";
  }

  void assistant_with_thinking(std::string& text, std::span<const message> messages, std::size_t i) const {
    const message& m = messages[i];
    std::string_view content = m.content, thoughts = m.reasoning_content ? *m.reasoning_content : std::string_view();
    constexpr std::string_view open = "<think>", close = "</think>";
    if (!m.reasoning_content && content.find(close) != std::string_view::npos) {
      thoughts = content.substr(0, content.find(close));
      while (!thoughts.empty() && thoughts.back() == '\n') thoughts.remove_suffix(1);
      if (const auto at = thoughts.rfind(open); at != std::string_view::npos) thoughts.remove_prefix(at + open.size());
      thoughts = without_leading_newlines(thoughts);
      content = without_leading_newlines(content.substr(content.rfind(close) + close.size()));
    }
    text += "<|im_start|>assistant\n";
    // Qwen3 keeps thoughts only after the user's last question: those of its steps between tool results.
    const bool shown = family_ == chat_family::minimind ||
                       (i > last_question(messages) && (i + 1 == messages.size() || !thoughts.empty()));
    if (shown) {
      thoughts = without_leading_newlines(thoughts);
      while (!thoughts.empty() && thoughts.back() == '\n') thoughts.remove_suffix(1);
      (((text += "<think>\n") += thoughts) += "\n</think>\n\n") += without_leading_newlines(content);
    } else {
      text += content;
    }
    for (std::size_t c = 0; c < m.tool_calls.size(); ++c) {
      const tool_call& call = m.tool_calls[c];
      if (c > 0 || !content.empty()) text += '\n';
      ((text += "<tool_call>\n{\"name\": \"") += call.name) += "\", \"arguments\": ";
      if (call.arguments.is_string()) {
        text += call.arguments.get_ref<const std::string&>();
      } else {
        append_python_json(text, call.arguments);
      }
      text += "}\n</tool_call>";
    }
    text += "<|im_end|>\n";
  }

  /// The index of the last user message that is not a tool's answer; without one, of the last message.
  static std::size_t last_question(std::span<const message> messages) {
    const auto answer = [](const std::string& s) {
      constexpr std::string_view open = "<tool_response>", close = "</tool_response>";
      return s.compare(0, open.size(), open) == 0 && s.size() >= close.size() &&
             s.compare(s.size() - close.size(), close.size(), close) == 0;
    };
    for (std::size_t i = messages.size(); i-- > 0;)
      if (messages[i].role == "user" && !answer(messages[i].content)) return i;
    return messages.size() - 1;
  }

  static std::string_view without_leading_newlines(std::string_view s) {
    while (!s.empty() && s.front() == '\n') s.remove_prefix(1);
    return s;
  }

  chat_family family_;
  std::string_view default_system_;
};

}  // namespace text
RLCORE_END
