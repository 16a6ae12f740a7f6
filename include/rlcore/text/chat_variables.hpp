// Jinja variables of a chat template: messages, tools, options and special tokens.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/jinja/value.hpp"
#include "rlcore/text/message.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/text_file.hpp"

RLCORE_BEGIN
namespace text {

/// The special tokens of a model folder by the names that templates use (bos_token, eos_token, ...), from
/// tokenizer_config.json and, for those it lacks, special_tokens_map.json. Throws format_error.
jinja::dictionary special_token_texts(const std::filesystem::path& folder);

/// A content in parts: [{"type": "image"}, {"type": "text", "text": ...}].
jinja::value parts_value(std::span<const message_part> parts);

/// A message as transformers passes it; reasoning_content is also available as thinking, which some templates read.
jinja::value message_value(const message& m);

/// All variables of a rendering.
jinja::dictionary chat_variables(std::span<const message> messages, const render_options& options,
                                 const jinja::dictionary& special_tokens);

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text {

RLCORE_INLINE jinja::dictionary special_token_texts(const std::filesystem::path& folder) {
  jinja::dictionary tokens;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const std::filesystem::path file = folder / name;
    if (!std::filesystem::exists(file)) continue;
    const auto json = parse_json<format_error>(read_text_file(file), file.string());
    if (!json.is_object()) throw format_error(file.string() + ": not a JSON object");
    for (const char* token :
         {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
      const auto found = json.find(token);
      if (found == json.end() || tokens.find(token) != nullptr) continue;
      const auto content = found->is_object() ? found->value("content", nlohmann::json()) : *found;
      if (content.is_string()) tokens.set(token, content.get<std::string>());
    }
  }
  return tokens;
}

RLCORE_INLINE jinja::value parts_value(std::span<const message_part> parts) {
  jinja::value::list list;
  for (const message_part& p : parts) {
    jinja::dictionary part;
    part.set("type", p.image ? "image" : "text");
    if (!p.image) part.set("text", p.text);
    list.emplace_back(std::move(part));
  }
  return list;
}

RLCORE_INLINE jinja::value message_value(const message& m) {
  jinja::dictionary out;
  out.set("role", m.role);
  if (m.parts.empty())
    out.set("content", m.content);
  else
    out.set("content", parts_value(m.parts));
  if (m.reasoning_content) {
    out.set("reasoning_content", *m.reasoning_content);
    out.set("thinking", *m.reasoning_content);
  }
  if (!m.tool_calls.empty()) {
    jinja::value::list calls;
    for (const tool_call& call : m.tool_calls) {
      jinja::dictionary function, whole;
      function.set("name", call.name);
      function.set("arguments", jinja::from_json(call.arguments));
      whole.set("type", "function");
      whole.set("function", std::move(function));
      for (const auto& [key, item] : call.further.items()) whole.set(key, jinja::from_json(item));
      calls.emplace_back(std::move(whole));
    }
    out.set("tool_calls", std::move(calls));
  }
  for (const auto& [key, item] : m.further.items()) out.set(key, jinja::from_json(item));
  return out;
}

RLCORE_INLINE jinja::dictionary chat_variables(std::span<const message> messages, const render_options& options,
                                               const jinja::dictionary& special_tokens) {
  jinja::dictionary all = special_tokens;
  jinja::value::list turns, tools;
  for (const message& m : messages) turns.push_back(message_value(m));
  for (const auto& tool : options.tools) tools.push_back(jinja::from_json(tool));
  all.set("messages", std::move(turns));
  all.set("tools", tools.empty() ? jinja::value() : jinja::value(std::move(tools)));
  all.set("documents", jinja::value());
  all.set("add_generation_prompt", options.add_generation_prompt);
  if (options.add_vision_id) all.set("add_vision_id", true);
  if (options.enable_thinking) {
    all.set("enable_thinking", *options.enable_thinking);
    all.set("open_thinking", *options.enable_thinking);  // minimind's word for it
  }
  return all;
}

}  // namespace text
RLCORE_END
#endif
