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
#include "rlcore/text/dropped_parts.hpp"
#include "rlcore/text/jinja/value.hpp"
#include "rlcore/text/message.hpp"

RLCORE_BEGIN
namespace text {

namespace detail {
struct parsed_template;
}  // namespace detail

/// Bytes [begin, end) of a rendered conversation that the assistant wrote: the text inside {% generation %} tags, or,
/// without such tags, the text after the open header of its turn (the text of add_generation_prompt) up to and
/// including the end mark; the line end after it belongs to the template.
using written_bytes = jinja::byte_range;

/// A chat template in Jinja, rendered as transformers renders it. Cheap to copy, usable by many threads at once.
class chat_template {
 public:
  /// The template of a model folder: `chat_template` of chat_template.json (of processors with images), else
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

  /// Does the template accept content in parts?
  bool takes_parts() const;

  /// The messages in the form that this template takes, as vLLM has it: where it takes texts alone, contents in parts
  /// become their texts, joined by line ends, unless there are images; where it takes parts alone, texts become one.
  /// The developer is the system for a template that does not know the role.
  std::vector<message> accepted(std::span<const message> messages) const;

  /// The text that opens a turn of the assistant behind the messages before number `i` (add_generation_prompt); empty
  /// if it cannot be told.
  std::string opening(std::span<const message> messages, std::size_t i, const render_options& options) const;

  /// What messages say of a part that was dropped.
  std::string text_of(const dropped_part& part) const;

  /// The conversation as text. Throws std::invalid_argument without messages; data_error for a role, tool calls and
  /// thoughts that the template never reads, and for what it rejects; config_error for such options. What it leaves out
  /// in this conversation is added to `dropped`; without that, a lost content or call is a data_error.
  std::string render(std::span<const message> messages, const render_options& options = {},
                     std::vector<dropped_part>* dropped = nullptr) const;
  /// The same; `written` receives the byte ranges of the assistant's turns, in order. Throws data_error if they cannot
  /// be determined.
  std::string render(std::span<const message> messages, const render_options& options,
                     std::vector<written_bytes>& written, std::vector<dropped_part>* dropped = nullptr) const;

 private:
  using parsed = detail::parsed_template;

  explicit chat_template(std::shared_ptr<const parsed> p) : parsed_(std::move(p)) {}

  std::shared_ptr<const parsed> parsed_;
};

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/text/chat_variables.hpp"
#include "rlcore/text/model_file.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/parsed_template.hpp"
#include "rlcore/text/text_file.hpp"

RLCORE_BEGIN
namespace text {

RLCORE_INLINE chat_template chat_template::detect(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  const auto tokens = special_token_texts(folder);
  if (const fs::path file = folder / "chat_template.json"; has_model_file(file)) {
    const nlohmann::json source =
        field(parse_json<format_error>(read_text_file(file), file.string()), "chat_template", file.string());
    if (!source.is_string())
      throw format_error(file.string() + ": chat_template: found no text; " + parsed::how_to_choose());
    return from_jinja(source.get_ref<const std::string&>(), file.string(), tokens);
  }
  if (const fs::path file = folder / "chat_template.jinja"; has_model_file(file))
    return from_jinja(read_text_file(file), file.string(), tokens);
  const fs::path file = folder / "tokenizer_config.json";
  const std::string where = file.string() + ": chat_template";
  nlohmann::json source =
      field(parse_json<format_error>(read_model_file(file), file.string()), "chat_template", file.string());
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
  if (!source.is_string()) throw format_error(where + ": found none; " + parsed::how_to_choose());
  auto p = std::make_shared<parsed>(source.get_ref<const std::string&>(), where, tokens);
  if (with_tools) p->with_tools = parsed::parse(*with_tools, where);
  return chat_template(std::move(p));
}

RLCORE_INLINE chat_template chat_template::from_jinja(std::string_view jinja, const std::string& where,
                                                      jinja::dictionary special_tokens) {
  return chat_template(std::make_shared<parsed>(jinja, where, std::move(special_tokens)));
}

RLCORE_INLINE chat_template chat_template::named(std::string_view family) {
  const std::string jinja = family_jinja(family);
  if (jinja.empty())
    throw config_error("chat template '" + std::string(family) + "' is unknown" +
                       did_you_mean(family, chat_family_names) + "; expected Jinja text, a file, or one of " +
                       parsed::family_list());
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

RLCORE_INLINE const std::string& chat_template::source() const noexcept { return parsed_->source; }

RLCORE_INLINE bool chat_template::has_tools() const { return parsed_->has_tools(); }

RLCORE_INLINE bool chat_template::has_thinking() const { return parsed_->has_thinking(); }

RLCORE_INLINE bool chat_template::has_thoughts() const { return parsed_->has_thoughts(); }

RLCORE_INLINE bool chat_template::mentions(std::string_view variable) const {
  return parsed_->mentions_any({variable});
}

RLCORE_INLINE bool chat_template::takes_parts() const { return parsed_->forms() != detail::content_forms::texts; }

RLCORE_INLINE std::vector<message> chat_template::accepted(std::span<const message> messages) const {
  std::vector<message> taken(messages.begin(), messages.end());
  if (!mentions("developer"))
    for (message& m : taken)
      if (m.role == "developer") m.role = "system";
  const detail::content_forms forms = parsed_->forms();
  const bool images = std::ranges::any_of(taken, [](const message& m) { return m.images() > 0; });
  if (forms == detail::content_forms::both || (forms == detail::content_forms::texts && images)) return taken;
  for (message& m : taken) {
    if (forms == detail::content_forms::parts) {
      if (m.parts.empty() && !m.content.empty()) m.parts.push_back({m.content});
    } else if (!m.parts.empty()) {
      m.content.clear();
      for (std::size_t i = 0; i < m.parts.size(); ++i) (m.content += i == 0 ? "" : "\n") += m.parts[i].text;
      m.parts.clear();
    }
  }
  return taken;
}

RLCORE_INLINE std::string chat_template::opening(std::span<const message> messages, std::size_t i,
                                                 const render_options& options) const {
  try {
    return parsed_->open_header(messages, i, options);
  } catch (const data_error&) {
    return {};
  }
}

RLCORE_INLINE std::string chat_template::text_of(const dropped_part& part) const {
  return parsed_->text_of(part.message, part.part);
}

RLCORE_INLINE std::string chat_template::render(std::span<const message> messages, const render_options& options,
                                                std::vector<dropped_part>* dropped) const {
  return parsed_->rendered(messages, options, dropped).text;
}

RLCORE_INLINE std::string chat_template::render(std::span<const message> messages, const render_options& options,
                                                std::vector<written_bytes>& written,
                                                std::vector<dropped_part>* dropped) const {
  jinja::rendering r = parsed_->rendered(messages, options, dropped);
  written =
      parsed_->program_of(options).marks_generation() ? r.generated : parsed_->turns_of_assistant(messages, options, r);
  return std::move(r.text);
}

}  // namespace text
RLCORE_END
#endif
