// Conversations written as the text that a chat model was trained on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/text/chat_family.hpp"
#include "rlcore/text/chat_turns.hpp"
#include "rlcore/text/json_field.hpp"
#include "rlcore/text/message.hpp"
#include "rlcore/text/text_file.hpp"

RLCORE_BEGIN
namespace text {

/// What a rendering is asked for beside the messages.
struct render_options {
  bool add_generation_prompt = false;     ///< open the assistant's next turn at the end
  std::optional<bool> enable_thinking{};  ///< unset: as the template does when nobody says anything
  std::vector<nlohmann::ordered_json> tools{};
};

/// Bytes [begin, end) of a rendered conversation that the assistant wrote: what follows the open header of its turn
/// (the text of add_generation_prompt) up to and including the end mark; the line end behind it is the template's.
struct written_bytes {
  std::size_t begin = 0, end = 0;
};

/// A chat template: one of the built-in families, equal to what transformers renders from the family's Jinja text.
class chat_template {
 public:
  /// The template of a model folder: chat_template.jinja, else `chat_template` of tokenizer_config.json. Throws
  /// file_error, and format_error when there is none or it is none of the known ones.
  static chat_template detect(const std::filesystem::path& folder) {
    namespace fs = std::filesystem;
    if (fs::exists(folder / "chat_template.jinja"))
      return from_jinja(read_text_file(folder / "chat_template.jinja"), (folder / "chat_template.jinja").string());
    const fs::path file = folder / "tokenizer_config.json";
    nlohmann::json source;
    try {
      source = field(nlohmann::json::parse(std::string_view(read_text_file(file))), "chat_template", file.string());
    } catch (const nlohmann::json::exception& e) {
      throw format_error(file.string() + ": not valid JSON: " + e.what());
    }
    if (source.is_array()) {  // several, each with a name
      for (const auto& entry : nlohmann::json(source))
        if (entry.is_object() && entry.value("name", "") == "default") source = field(entry, "template", file.string());
    }
    if (!source.is_string()) throw format_error(file.string() + ": chat_template: found none; " + how_to_choose());
    return from_jinja(source.get<std::string>(), file.string() + ": chat_template");
  }

  /// The template of a Jinja text. `where` names it in messages. Throws format_error when it is none of the known ones.
  static chat_template from_jinja(std::string_view jinja, const std::string& where = "chat template") {
    chat_template t;
    if (!recognise_chat_template(jinja, t.style_))
      throw format_error(where + ": not one of the known chat templates; " + how_to_choose());
    return t;
  }

  /// A family by name, as published. Throws config_error for an unknown name.
  static chat_template named(std::string_view family) {
    for (std::size_t i = 0; i < chat_family_names.size(); ++i) {
      if (chat_family_names[i] != family) continue;
      chat_template t;
      t.style_ = published_style(static_cast<chat_family>(i));
      return t;
    }
    throw config_error("chat template '" + std::string(family) + "' is unknown" +
                       did_you_mean(family, chat_family_names) + "; known: " + family_list());
  }

  /// Name of the family.
  std::string_view family() const noexcept { return chat_family_names[static_cast<std::size_t>(style_.family)]; }

  /// Whether tools, and calls of them, have a place in this template.
  bool has_tools() const noexcept { return chat_turns(style_).has_tools(); }

  /// Whether enable_thinking = true means something to this template.
  bool has_thinking() const noexcept { return chat_turns(style_).has_thinking(); }

  /// The conversation as text. Throws std::invalid_argument without messages, data_error for a role, a tool call or
  /// reasoning that the template has no place for (Jinja would drop it), config_error for options of that sort.
  std::string render(std::span<const message> messages, const render_options& options = {}) const {
    return render(messages, options, nullptr);
  }
  /// The same; `written` receives where the assistant's turns stand, one entry for each in order.
  std::string render(std::span<const message> messages, const render_options& options,
                     std::vector<written_bytes>& written) const {
    written.clear();
    return render(messages, options, &written);
  }

 private:
  std::string render(std::span<const message> messages, const render_options& options,
                     std::vector<written_bytes>* written) const {
    require(!messages.empty(), "chat_template::render: no messages");
    const chat_turns turns(style_);
    if (!options.tools.empty() && !has_tools())
      throw config_error("chat template " + std::string(family()) + " has no place for tools; qwen2.5 and qwen3 do");
    if (options.enable_thinking.value_or(false) && !has_thinking())
      throw config_error("chat template " + std::string(family()) +
                         " has no thinking mode; expected enable_thinking "
                         "unset or false");
    for (std::size_t i = 0; i < messages.size(); ++i) turns.check(messages[i], i, family());
    std::string text;
    turns.open(text, messages, options.tools);
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const std::size_t begin = text.size();
      turns.turn(text, messages, i, !options.tools.empty());
      if (written == nullptr || messages[i].role != "assistant") continue;
      std::string opened;
      turns.generation_prompt(opened, options.enable_thinking);
      // Thoughts that the template wrote only because there are some belong to the assistant, an empty block that the
      // open header already has does not.
      if (text.compare(begin, opened.size(), opened) != 0) opened.resize(opened.find('\n') + 1);
      written->push_back({begin + opened.size(), text.size() - 1});
    }
    if (options.add_generation_prompt) turns.generation_prompt(text, options.enable_thinking);
    return text;
  }

  static std::string family_list() {
    std::string list;
    for (const auto name : chat_family_names) (list += list.empty() ? "" : ", ") += name;
    return list;
  }
  static std::string how_to_choose() {
    return "known: " + family_list() + "; choose one by name (chat_template::named)";
  }

  chat_style style_;
};

}  // namespace text
RLCORE_END
