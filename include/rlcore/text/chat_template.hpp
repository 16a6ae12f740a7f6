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

#if !defined(RLCORE_COMPILED)
#include "rlcore/text/render_chat.hpp"
#endif
