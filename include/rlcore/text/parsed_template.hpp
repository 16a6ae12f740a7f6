// A parsed chat template, and how it is rendered and checked. The text layer's own: see chat_template.
#pragma once

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/chat_variables.hpp"
#include "rlcore/text/dropped_parts.hpp"
#include "rlcore/text/jinja/program.hpp"
#include "rlcore/text/jinja/python_text.hpp"
#include "rlcore/text/message.hpp"
#include "rlcore/text/word_automaton.hpp"

RLCORE_BEGIN
namespace text::detail {

/// The forms of contents that a template writes.
enum class content_forms { texts, both, parts };

/// A parsed template with what it needs to render.
struct parsed_template {
  /// Throws format_error with the line of `jinja` that is not understood; `where` names it.
  parsed_template(std::string_view jinja, const std::string& where, jinja::dictionary tokens)
      : program(parse(jinja, where)), name(where), source(jinja), special_tokens(std::move(tokens)) {}

  /// The program of a Jinja text. Throws format_error, which says how to choose another template.
  static jinja::program parse(std::string_view jinja, const std::string& where) {
    try {
      return jinja::program(jinja);
    } catch (const format_error& e) {
      throw format_error(where + ": " + e.what() + "; " + how_to_choose());
    }
  }
  static std::string family_list() {
    std::string list;
    for (const auto name : chat_family_names) (list += list.empty() ? "" : ", ") += name;
    return list;
  }
  static std::string how_to_choose() {
    return "choose another with rlcore.chat_template or --tokenizer_chat_template: a file, or one of " + family_list();
  }

  bool has_tools() const { return with_tools.has_value() || program.mentions("tools"); }
  bool has_thinking() const { return mentions_any({"enable_thinking", "open_thinking"}); }
  bool has_thoughts() const { return mentions_any({"reasoning_content", "thinking", "reasoning"}); }
  /// The template for these options: that with tools, where there are two.
  const jinja::program& program_of(const render_options& options) const {
    return with_tools && !options.tools.empty() ? *with_tools : program;
  }
  /// Whether the template reads one of the words.
  bool mentions_any(std::initializer_list<std::string_view> words) const {
    return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
      return program.mentions(word) || (with_tools && with_tools->mentions(word));
    });
  }
  /// What messages say of a part of message number `i` that is dropped.
  std::string text_of(std::size_t i, const std::string& part) const {
    return "messages[" + std::to_string(i) + "]: " + part + " has no place in " + name;
  }
  /// Throws data_error: `part` of message number `i` would be dropped.
  [[noreturn]] void throw_dropped_part(std::size_t i, const std::string& part) const {
    throw data_error(text_of(i, part));
  }

  /// The forms of contents that the template writes.
  content_forms forms() const {
    std::call_once(forms_known_, [this] {
      const auto written = [this](std::vector<message_part> in_parts) -> std::optional<std::string> {
        const std::vector<message> shown{{"user", "words", {}, {}, {}, std::move(in_parts)}};
        try {
          return rendered(shown, {}, nullptr).text;
        } catch (const data_error&) {
          return std::nullopt;
        }
      };
      const auto as_text = written({}), as_parts = written({{"words"}});
      if (as_parts) forms_ = as_text == as_parts ? content_forms::both : as_text ? forms_ : content_forms::parts;
    });
    return forms_;
  }

  /// Throws for input that no expression of the template reads.
  void check(std::span<const message> messages, const render_options& options) const {
    require(!messages.empty(), "chat_template::render: no messages");
    if (!options.tools.empty() && !has_tools())
      throw config_error(name +
                         " has no place for tools; qwen2.5, qwen2.5-vl-tools and qwen3 do (rlcore.chat_template, "
                         "actor_rollout_ref.model.custom_chat_template)");
    if (options.enable_thinking.value_or(false) && !has_thinking())
      throw config_error(name + " has no thinking mode; expected enable_thinking unset or false");
    if (options.add_vision_id && !mentions_any({"add_vision_id"}))
      throw config_error(name + " does not number images; expected add_vision_id unset or false");
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (!messages[i].tool_calls.empty() && !mentions_any({"tool_calls"})) throw_dropped_part(i, "a tool call");
      if (messages[i].reasoning_content && !has_thoughts()) throw_dropped_part(i, "reasoning_content");
    }
    for (const auto& [variable, value] : options.variables.items())
      if (!mentions_any({variable})) throw config_error(name + " does not read the variable '" + variable + "'");
  }

  /// The conversation as text, with what loops wrote. Throws as chat_template::render; what is dropped is added to
  /// `dropped`.
  jinja::rendering rendered(std::span<const message> messages, const render_options& options,
                            std::vector<dropped_part>* dropped) const {
    jinja::rendering r = rendered(messages, options);
    for (dropped_part& p : missing(messages, options, r.text)) {
      if (dropped != nullptr)
        dropped->push_back(std::move(p));
      else if (p.what == dropped_part::kind::content || p.what == dropped_part::kind::call)
        throw_dropped_part(p.message, p.part);
    }
    return r;
  }

  /// The parts that the template writes in no form; none if it rejects the copy with marks, which is no conversation.
  std::vector<dropped_part> missing(std::span<const message> messages, const render_options& options,
                                    std::string_view text) const {
    const marked_conversation marked(messages, text);
    std::vector<dropped_part> parts;
    try {
      parts = marked.missing_in(
          program_of(options).render(chat_variables(marked.messages(), options, special_tokens)).text);
    } catch (const jinja::render_error&) {
    }
    for (std::size_t i = 0; i < messages.size(); ++i)  // marks stand in texts
      for (const auto& [key, item] : messages[i].further.items())
        if (!item.is_string() && !mentions_any({key})) parts.push_back(dropped_member(i, key));
    return parts;
  }

  /// The same without the parts that a loop leaves out of a message.
  jinja::rendering rendered(std::span<const message> messages, const render_options& options) const {
    check(messages, options);
    const jinja::dictionary variables = chat_variables(messages, options, special_tokens);
    jinja::rendering r;
    try {
      r = program_of(options).render(variables, *variables.find("messages"));
    } catch (const jinja::render_error& e) {
      const bool images = std::any_of(messages.begin(), messages.end(), [](const auto& m) { return m.images() > 0; });
      throw data_error(
          name + ": " + e.what() +
          (images ? "; for messages with images choose a template that takes them, such as qwen2.5-vl" : ""));
    }
    check_written(messages, r);
    return r;
  }

  /// Throws for a message that no loop wrote and whose content stands nowhere else.
  void check_written(std::span<const message> messages, const jinja::rendering& r) const {
    std::vector<char> visited(messages.size());
    for (const jinja::visit& v : r.visits) visited[v.element] = 1;
    std::vector<std::string_view> contents;
    const auto for_contents = [&](const auto& visit) {
      for (std::size_t i = 0; i < messages.size(); ++i) {
        if (visited[i] != 0) continue;
        if (messages[i].parts.empty()) visit(i, jinja::strip(messages[i].content, nullptr, true, true));
        for (const message_part& p : messages[i].parts) visit(i, jinja::strip(p.text, nullptr, true, true));
      }
    };
    for_contents([&](std::size_t, std::string_view content) { contents.push_back(content); });
    const std::vector<bool> found = word_automaton(contents).occurring(r.text);
    std::size_t next = 0;
    for_contents([&](std::size_t i, std::string_view content) {
      if (!found[next++] && !content.empty()) throw_dropped_part(i, "role '" + messages[i].role + "'");
    });
  }

  /// The add_generation_prompt text after the messages before message `i` of the assistant.
  std::string open_header(std::span<const message> messages, std::size_t i, const render_options& options) const {
    const std::vector<message> question{{"user", "x"}};
    const std::span<const message> before = i == 0 ? std::span<const message>(question) : messages.first(i);
    render_options asked = options;
    asked.add_generation_prompt = false;
    const jinja::rendering closed = rendered(before, asked);
    asked.add_generation_prompt = true;
    const std::string open = rendered(before, asked).text;
    // A question may stand before all loops.
    const std::size_t end = closed.visits.empty() ? closed.text.size() : closed.visits.back().bytes.end;
    if (open.compare(0, end, closed.text, 0, end) != 0) throw_ambiguous_turn(i);
    return open.substr(end);
  }
  /// Throws data_error: the assistant's text in message number `i` cannot be located.
  [[noreturn]] void throw_ambiguous_turn(std::size_t i) const {
    throw data_error("messages[" + std::to_string(i) + "]: " + name +
                     " does not show which text the assistant wrote; put {% generation %} and {% endgeneration %} "
                     "around it, or " +
                     how_to_choose());
  }

  /// The loop output for each message of the assistant, without the header that opens its turn.
  std::vector<jinja::byte_range> turns_of_assistant(std::span<const message> messages, const render_options& options,
                                                    const jinja::rendering& r) const {
    std::vector<jinja::byte_range> written;
    std::optional<std::string> header;
    std::vector<std::size_t> visits(messages.size());  // their number, and the last of them, by message
    std::vector<jinja::byte_range> turns(messages.size());
    for (const jinja::visit& v : r.visits) ++visits[v.element], turns[v.element] = v.bytes;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (messages[i].role != "assistant") continue;
      if (!header) header = open_header(messages, i, options);
      if (visits[i] != 1) throw_ambiguous_turn(i);
      const jinja::byte_range turn = turns[i];
      const std::string_view text = std::string_view(r.text).substr(turn.begin, turn.end - turn.begin);
      // Thoughts that the template wrote only because there are some belong to the assistant, an empty block that the
      // open header already has does not.
      std::string_view opened = *header;
      if (text.find(opened) == text.npos) opened = opened.substr(0, opened.find("<think>"));
      const std::size_t at = text.find(opened);
      if (at == text.npos || (at > 0 && i > 0)) throw_ambiguous_turn(i);  // before the first turn a template may greet
      const std::size_t line_end = text.ends_with('\n') ? 1 : 0;
      if (turn.end - line_end < turn.begin + at + opened.size()) throw_ambiguous_turn(i);
      written.push_back({turn.begin + at + opened.size(), turn.end - line_end});
    }
    return written;
  }

  jinja::program program;
  std::optional<jinja::program> with_tools{};
  std::string name, source;
  jinja::dictionary special_tokens;

 private:
  mutable std::once_flag forms_known_;
  mutable content_forms forms_ = content_forms::texts;
};

}  // namespace text::detail
RLCORE_END
#endif
