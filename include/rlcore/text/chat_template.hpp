// Chat templates: render conversations as model input text. Jinja is slow to compile: with RLCORE_COMPILED it is that
// of src/text.cpp.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/jinja/value.hpp"
#include "rlcore/text/message.hpp"

RLCORE_BEGIN
namespace text {

/// Bytes [begin, end) of a rendered conversation that the assistant wrote: the text inside {% generation %} tags, or,
/// without such tags, the text after the open header of its turn (the text of add_generation_prompt) up to and
/// including the end mark; the line end after it belongs to the template.
using written_bytes = jinja::byte_range;

/// A chat template in Jinja, rendered as transformers renders it. Cheap to copy, usable by many threads at once.
class chat_template {
 public:
  /// The template of a model folder: `chat_template` of chat_template.json (of processors with pictures), else
  /// chat_template.jinja, else `chat_template` of tokenizer_config.json. Throws file_error, and format_error when there
  /// is none or it cannot be read.
  static chat_template detect(const std::filesystem::path& folder);

  /// The template of a Jinja text. `where` names it in messages; `special_tokens` are variables such as bos_token.
  /// Throws format_error with the line that is not understood.
  static chat_template from_jinja(std::string_view jinja, const std::string& where = "chat template",
                                  jinja::dictionary special_tokens = {});

  /// A family by name, as its models were published. Throws config_error for an unknown name.
  static chat_template named(std::string_view family);

  /// The template of a setting: the folder's own template if it is empty, else Jinja text, the path of a Jinja file, or
  /// a family. `key` names the setting in messages. Throws file_error, format_error, config_error.
  static chat_template chosen(const std::string& setting, const std::filesystem::path& folder, const std::string& key);

  /// The Jinja text.
  const std::string& source() const noexcept;

  /// Does the template use tools?
  bool has_tools() const;

  /// Does the template use enable_thinking?
  bool has_thinking() const;

  /// Does the template read the thoughts of a message, by reasoning_content or thinking?
  bool has_thoughts() const;

  /// Does the template name the variable?
  bool mentions(std::string_view variable) const;

  /// Does the template accept content in parts? A single text part is then rendered like plain text.
  bool takes_parts() const;

  /// The conversation as text. Throws std::invalid_argument without messages; data_error for a message, tool call or
  /// reasoning that the template would drop or rejects; config_error for such options.
  std::string render(std::span<const message> messages, const render_options& options = {}) const;
  /// The same; `written` receives the byte ranges of the assistant's turns, in order. Throws data_error if they cannot
  /// be determined.
  std::string render(std::span<const message> messages, const render_options& options,
                     std::vector<written_bytes>& written) const;

 private:
  struct parts;

  explicit chat_template(std::shared_ptr<const parts> p) : parts_(std::move(p)) {}

  std::shared_ptr<const parts> parts_;
};

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/text/chat_variables.hpp"
#include "rlcore/text/jinja/program.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/text_file.hpp"
#include "rlcore/text/word_automaton.hpp"

RLCORE_BEGIN
namespace text {

/// A parsed template with what it needs to render.
struct chat_template::parts {
  /// Throws format_error with the line of `jinja` that is not understood; `where` names it.
  parts(std::string_view jinja, const std::string& where, jinja::dictionary tokens)
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
  bool has_thoughts() const { return mentions_any({"reasoning_content", "thinking"}); }
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
  /// Throws data_error: `part` of message number `i` would be dropped.
  [[noreturn]] void throw_dropped_part(std::size_t i, const std::string& part) const {
    throw data_error("messages[" + std::to_string(i) + "]: " + part + " has no place in " + name);
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
      throw config_error(name + " does not number pictures; expected add_vision_id unset or false");
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (!messages[i].tool_calls.empty() && !mentions_any({"tool_calls"})) throw_dropped_part(i, "a tool call");
      if (messages[i].reasoning_content && !has_thoughts()) throw_dropped_part(i, "reasoning_content");
    }
    for (const auto& [variable, value] : options.variables.items())
      if (!mentions_any({variable})) throw config_error(name + " does not read the variable '" + variable + "'");
  }

  /// The conversation as text, with what loops wrote. Throws as chat_template::render.
  jinja::rendering rendered(std::span<const message> messages, const render_options& options) const {
    check(messages, options);
    const jinja::dictionary variables = chat_variables(messages, options, special_tokens);
    jinja::rendering r;
    try {
      r = program_of(options).render(variables, *variables.find("messages"));
    } catch (const jinja::render_error& e) {
      const bool pictures = std::any_of(messages.begin(), messages.end(), [](const auto& m) { return m.images() > 0; });
      throw data_error(
          name + ": " + e.what() +
          (pictures ? "; for messages with pictures choose a template that takes them, such as qwen2.5-vl" : ""));
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
    if (closed.visits.empty()) throw_ambiguous_turn(i);
    const std::size_t end = closed.visits.back().bytes.end;
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
  std::vector<written_bytes> turns_of_assistant(std::span<const message> messages, const render_options& options,
                                                const jinja::rendering& r) const {
    std::vector<written_bytes> written;
    std::optional<std::string> header;
    std::vector<std::size_t> visits(messages.size());  // their number, and the last of them, by message
    std::vector<written_bytes> turns(messages.size());
    for (const jinja::visit& v : r.visits) ++visits[v.element], turns[v.element] = v.bytes;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (messages[i].role != "assistant") continue;
      if (!header) header = open_header(messages, i, options);
      if (visits[i] != 1) throw_ambiguous_turn(i);
      const written_bytes turn = turns[i];
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
};

RLCORE_INLINE chat_template chat_template::detect(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  const auto tokens = special_token_texts(folder);
  if (const fs::path file = folder / "chat_template.json"; fs::exists(file)) {
    const nlohmann::json source =
        field(parse_json<format_error>(read_text_file(file), file.string()), "chat_template", file.string());
    if (!source.is_string())
      throw format_error(file.string() + ": chat_template: found no text; " + parts::how_to_choose());
    return from_jinja(source.get_ref<const std::string&>(), file.string(), tokens);
  }
  if (const fs::path file = folder / "chat_template.jinja"; fs::exists(file))
    return from_jinja(read_text_file(file), file.string(), tokens);
  const fs::path file = folder / "tokenizer_config.json";
  const std::string where = file.string() + ": chat_template";
  nlohmann::json source =
      field(parse_json<format_error>(read_text_file(file), file.string()), "chat_template", file.string());
  std::optional<std::string> with_tools;
  if (source.is_array()) {  // several, each with a name
    nlohmann::json by_default;
    for (const auto& entry : source) {
      if (!entry.is_object() || !entry.contains("name") || !entry.contains("template")) continue;
      if (entry["name"] == "default") by_default = entry["template"];
      if (entry["name"] == "tool_use" && entry["template"].is_string())
        with_tools = entry["template"].get<std::string>();
    }
    source = std::move(by_default);
  }
  if (!source.is_string()) throw format_error(where + ": found none; " + parts::how_to_choose());
  auto p = std::make_shared<parts>(source.get_ref<const std::string&>(), where, tokens);
  if (with_tools) p->with_tools = parts::parse(*with_tools, where);
  return chat_template(std::move(p));
}

RLCORE_INLINE chat_template chat_template::from_jinja(std::string_view jinja, const std::string& where,
                                                      jinja::dictionary special_tokens) {
  return chat_template(std::make_shared<parts>(jinja, where, std::move(special_tokens)));
}

RLCORE_INLINE chat_template chat_template::named(std::string_view family) {
  const std::string jinja = family_jinja(family);
  if (jinja.empty())
    throw config_error("chat template '" + std::string(family) + "' is unknown" +
                       did_you_mean(family, chat_family_names) + "; expected Jinja text, a file, or one of " +
                       parts::family_list());
  return from_jinja(jinja, "chat template " + std::string(family));
}

RLCORE_INLINE chat_template chat_template::chosen(const std::string& setting, const std::filesystem::path& folder,
                                                  const std::string& key) {
  if (setting.empty()) return detect(folder);
  if (setting.find('{') != setting.npos) return from_jinja(setting, key, special_token_texts(folder));
  std::error_code ignored;
  if (std::filesystem::is_regular_file(setting, ignored))
    return from_jinja(read_text_file(setting), setting, special_token_texts(folder));
  try {
    return named(setting);
  } catch (const config_error& e) {
    throw config_error(key + ": " + e.what());
  }
}

RLCORE_INLINE const std::string& chat_template::source() const noexcept { return parts_->source; }

RLCORE_INLINE bool chat_template::has_tools() const { return parts_->has_tools(); }

RLCORE_INLINE bool chat_template::has_thinking() const { return parts_->has_thinking(); }

RLCORE_INLINE bool chat_template::has_thoughts() const { return parts_->has_thoughts(); }

RLCORE_INLINE bool chat_template::mentions(std::string_view variable) const { return parts_->mentions_any({variable}); }

RLCORE_INLINE bool chat_template::takes_parts() const {
  std::vector<message> shown{{"user", "words"}};
  try {
    const std::string alone = render(shown);
    shown[0].parts = {{"words"}};
    return render(shown) == alone;
  } catch (const data_error&) {
    return false;
  }
}

RLCORE_INLINE std::string chat_template::render(std::span<const message> messages,
                                                const render_options& options) const {
  return parts_->rendered(messages, options).text;
}

RLCORE_INLINE std::string chat_template::render(std::span<const message> messages, const render_options& options,
                                                std::vector<written_bytes>& written) const {
  jinja::rendering r = parts_->rendered(messages, options);
  written =
      parts_->program_of(options).marks_generation() ? r.generated : parts_->turns_of_assistant(messages, options, r);
  return std::move(r.text);
}

}  // namespace text
RLCORE_END
#endif
