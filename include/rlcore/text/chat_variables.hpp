// Families of chat templates, and the variables that a template sees.
#pragma once

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/jinja/value.hpp"
#include "rlcore/text/message.hpp"
#include "rlcore/text/model_file.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace text {

/// Names of the families. All frame turns as <|im_start|>role, content, <|im_end|>. chatml: nothing else; qwen2: a
/// default system turn; qwen2.5: that, and tools; qwen2.5-vl: as qwen2, with images; qwen2.5-vl-tools: that, and the
/// tools of qwen2.5; qwen3: tools, thinking; minimind: as qwen3, but every assistant turn has a <think> block.
inline constexpr std::array<std::string_view, 7> chat_family_names = {
    "chatml", "qwen2", "qwen2.5", "qwen2.5-vl", "qwen2.5-vl-tools", "qwen3", "minimind"};

/// Our own ChatML template, for the tokenizer_config.json of folders that we create.
inline constexpr std::string_view chatml_jinja =
    "{%- for turn in messages %}{{- '<|im_start|>' + turn.role + '\\n' + turn.content + '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

namespace detail {

/// A system turn for conversations that bring none, if the Jinja condition `also` holds.
inline std::string default_system_turn(std::string_view text, std::string_view also = "true") {
  return "{%- if messages[0].role != 'system' and " + std::string(also) + " %}{{- '<|im_start|>system\\n" +
         std::string(text) + "<|im_end|>\\n' }}{%- endif %}";
}

/// A system turn that lists the tools behind the text of `before`, a Jinja expression.
std::string tool_turn(std::string_view before);

/// How a content that is a text is written (another is refused by +), and one that may be in parts with images.
inline constexpr std::string_view text_content = "{{- '' + turn.content }}";
inline constexpr std::string_view parted_content = R"({%- if turn.content is string %}{{- turn.content }}
{%- else %}{%- for part in turn.content %}
{%- if part.type == 'image' or 'image' in part or 'image_url' in part %}
{%- set seen.pictures = seen.pictures + 1 %}
{%- if add_vision_id %}{{- 'Picture ' }}{{- seen.pictures }}{{- ': ' }}{%- endif %}
{{- '<|vision_start|><|image_pad|><|vision_end|>' }}
{%- elif 'text' in part %}{{- part.text }}{%- endif %}{%- endfor %}{%- endif %})";

/// The counters of parted_content.
inline constexpr std::string_view count_images = "{%- set seen = namespace(pictures=0) %}";

/// The turns with only their frame.
inline std::string framed_turns(std::string_view content) {
  return R"({%- for turn in messages %}{{- '<|im_start|>' + turn.role + '\n' }})" + std::string(content) +
         R"({{- '<|im_end|>\n' }}{%- endfor %})";
}

/// The turns, the assistant's written by `assistant`, for conversations with answers of tools.
std::string turns_with_tools(std::string_view assistant, std::string_view content = text_content);

std::string assistant_without_thinking(std::string_view content = text_content);

/// An assistant turn with thoughts in reasoning_content or in the content; `shown` is a Jinja condition.
std::string assistant_with_thinking(std::string_view shown);

/// Finds the last question: the last message of the user that is not a tool's answer; without one, the last message.
inline constexpr std::string_view last_question =
    R"({%- set seen = namespace(last=messages | length - 1, found=false) %}
{%- for turn in messages[::-1] %}
{%- if not seen.found and turn.role == 'user'
  and not (turn.content.startswith('<tool_response>') and turn.content.endswith('</tool_response>')) %}
{%- set seen.found = true %}{%- set seen.last = messages | length - 1 - loop.index0 %}{%- endif %}{%- endfor %})";

/// The open header of the assistant's next turn and the text after it.
inline std::string open_turn(std::string_view thoughts = "") {
  return "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}" + std::string(thoughts) + "{%- endif %}";
}

}  // namespace detail

/// The template of a family, which writes what the templates of its published models write for messages whose content
/// is a text, or for those with images (vl) in parts. Empty for an unknown name. The model types qwen2_5_vl and
/// qwen2_5_vl_tools are names, too.
std::string family_jinja(std::string_view name);

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
namespace text::detail {

RLCORE_INLINE std::string tool_turn(std::string_view before) {
  return "{%- if tools %}{{- '<|im_start|>system\\n' + (" + std::string(before) +
         R"() + '# Tools\n\nYou may call one or more functions to assist with the user query.\n\n'
  + 'You are provided with function signatures within <tools></tools> XML tags:\n<tools>' }}
{%- for tool in tools %}{{- '\n' + tool | tojson }}{%- endfor %}
{{- '\n</tools>\n\nFor each function call, return a json object with function name and arguments within '
  + '<tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n'
  + '</tool_call><|im_end|>\n' }}{%- endif %})";
}

RLCORE_INLINE std::string turns_with_tools(std::string_view assistant, std::string_view content) {
  return R"({%- for turn in messages %}
{%- if turn.role == 'user' or (turn.role == 'system' and not (loop.first and tools)) %}
{{- '<|im_start|>' + turn.role + '\n' }})" +
         std::string(content) + R"({{- '<|im_end|>\n' }}
{%- elif turn.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
{{- '\n<tool_response>\n' }})" +
         std::string(content) + R"({{- '\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\n' }}{%- endif %}
{%- elif turn.role == 'assistant' %})" +
         std::string(assistant) + "{%- endif %}{%- endfor %}";
}

RLCORE_INLINE std::string assistant_without_thinking(std::string_view content) {
  return R"({{- '<|im_start|>assistant' }}
{%- if turn.content or not turn.tool_calls %}{{- '\n' }})" +
         std::string(content) + R"({%- endif %}
{%- for call in turn.tool_calls %}
{{- '\n<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson + '}\n</tool_call>' }}
{%- endfor %}{{- '<|im_end|>\n' }})";
}

RLCORE_INLINE std::string assistant_with_thinking(std::string_view shown) {
  return R"({%- set content = turn.content %}{%- set thoughts = '' %}
{%- if turn.reasoning_content is string %}{%- set thoughts = turn.reasoning_content %}
{%- elif '</think>' in content %}
{%- set thoughts = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
{%- set content = content.split('</think>')[-1].lstrip('\n') %}{%- endif %}
{{- '<|im_start|>assistant\n' }}
{%- if )" +
         std::string(shown) +
         R"( %}{{- '<think>\n' + thoughts.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
{%- else %}{{- content }}{%- endif %}
{%- for call in turn.tool_calls %}
{%- if content or not loop.first %}{{- '\n' }}{%- endif %}
{{- '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
{%- if call.function.arguments is string %}{{- call.function.arguments }}
{%- else %}{{- call.function.arguments | tojson }}{%- endif %}{{- '}\n</tool_call>' }}
{%- endfor %}{{- '<|im_end|>\n' }})";
}

}  // namespace text::detail

namespace text {

RLCORE_INLINE std::string family_jinja(std::string_view name) {
  using namespace detail;
  if (name == "qwen2_5_vl") name = "qwen2.5-vl";
  if (name == "qwen2_5_vl_tools") name = "qwen2.5-vl-tools";
  constexpr std::string_view plain = "You are a helpful assistant.";
  constexpr std::string_view qwen = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
  constexpr std::string_view system = "messages[0].content + '\\n\\n' if messages[0].role == 'system' else ";
  const std::string no_thoughts = R"({{- '<think>\n\n</think>\n\n' }})";
  if (name == "chatml") return std::string(chatml_jinja);
  const auto qwen2_5 = [&](std::string_view by_default, std::string_view content) {
    return default_system_turn(by_default, "not tools") +
           tool_turn(std::string(system) + "'" + std::string(by_default) + "\\n\\n'") +
           turns_with_tools(assistant_without_thinking(content), content) + open_turn();
  };
  if (name == "qwen2") return default_system_turn(plain) + std::string(chatml_jinja);
  if (name == "qwen2.5-vl")
    return std::string(count_images) + default_system_turn(plain) + framed_turns(parted_content) + open_turn();
  if (name == "qwen2.5-vl-tools") return std::string(count_images) + qwen2_5(plain, parted_content);
  if (name == "qwen2.5") return qwen2_5(qwen, text_content);
  if (name == "qwen3")
    return tool_turn(std::string(system) + "''") + std::string(last_question) +
           turns_with_tools(assistant_with_thinking("loop.index0 > seen.last and (loop.last or thoughts)")) +
           open_turn("{%- if enable_thinking is false %}" + no_thoughts + "{%- endif %}");
  if (name == "minimind")
    return tool_turn(std::string(system) + "''") + turns_with_tools(assistant_with_thinking("true")) +
           open_turn(R"({%- if enable_thinking is true %}{{- '<think>\n' }}{%- else %})" + no_thoughts +
                     "{%- endif %}");
  return "";
}

RLCORE_INLINE jinja::dictionary special_token_texts(const std::filesystem::path& folder) {
  jinja::dictionary tokens;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const std::filesystem::path file = folder / name;
    if (!has_model_file(file)) continue;
    const auto json = parse_json<format_error>(read_model_file(file), file.string());
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
  for (const auto& [name, value] : options.variables.items()) all.set(name, jinja::from_json(value));
  return all;
}

}  // namespace text
RLCORE_END
#endif
