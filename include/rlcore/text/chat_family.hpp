// The families of chat templates that are built in, and how a template text is recognised as one of them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/jinja_form.hpp"

RLCORE_BEGIN
namespace text {

/// A built-in way to write a conversation. All frame turns as <|im_start|>role, content, <|im_end|>.
enum class chat_family : std::uint8_t {
  chatml,      ///< nothing else
  qwen2,       ///< a default system turn
  qwen2_5,     ///< a default system turn, tools
  qwen2_5_vl,  ///< as qwen2 for text
  qwen3,       ///< tools, thinking
  minimind,    ///< as qwen3, but every assistant turn has a <think> block
};

/// Names of the families, in the order of chat_family.
inline constexpr std::array<std::string_view, 6> chat_family_names = {"chatml",     "qwen2", "qwen2.5",
                                                                      "qwen2.5-vl", "qwen3", "minimind"};

/// A family together with the system turn it writes when a conversation brings none (empty: it writes none).
struct chat_style {
  chat_family family = chat_family::chatml;
  std::string default_system;
};

/// The style of a family as its models were published.
inline chat_style published_style(chat_family family) {
  switch (family) {
    case chat_family::qwen2:
    case chat_family::qwen2_5_vl:
      return {family, "You are a helpful assistant."};
    case chat_family::qwen2_5:
      return {family, "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."};
    default:
      return {family, ""};
  }
}

/// Our own ChatML template, for the tokenizer_config.json of folders that we create.
inline constexpr std::string_view chatml_jinja =
    "{%- for turn in messages %}{{- '<|im_start|>' + turn.role + '\\n' + turn.content + '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

/// Finds the style of a Jinja template. Only texts whose canonical form, the default system turn aside, is known
/// match: a template that differs in any other way is not recognised rather than rendered almost right.
inline bool recognise_chat_template(std::string_view jinja, chat_style& style) {
  using entry = std::pair<std::uint64_t, chat_family>;
  constexpr entry known[] = {
      {0x07055739D31B13AD, chat_family::chatml},     {0xC7C667836209576C, chat_family::chatml},
      {0x971EBB78E38E82C3, chat_family::chatml},     {0x290693688C5ED8DB, chat_family::chatml},
      {0x2DF35F7E2F823DE3, chat_family::qwen2},      {0xFBE02552E19E765D, chat_family::qwen2_5},
      {0xE5EBD9EB8A80CE3E, chat_family::qwen2_5_vl}, {0xDE553DC9D94D4E25, chat_family::qwen3},
      {0x410B232D50A2112C, chat_family::qwen3},      {0x89AD2F856148AE24, chat_family::minimind},
  };
  constexpr std::string_view open = "<|im_start|>system\n", close = "<|im_end|>\n", mark = "\x02";
  std::string form = jinja_form(jinja), system;
  for (std::size_t at = form.find(open); at != std::string::npos; at = form.find(open, at + 1)) {
    const std::size_t begin = at + open.size(), end = form.find(close, begin);
    if (end == std::string::npos || end == begin) continue;
    const std::string candidate = form.substr(begin, end - begin);
    if (candidate.find_first_of("\x01{}") == std::string::npos) system = candidate;
  }
  for (std::size_t at = form.find(system); !system.empty() && at != std::string::npos; at = form.find(system, at + 1))
    form.replace(at, system.size(), mark);
  const std::uint64_t hash = fnv1a(form);
  for (const auto& [known_hash, family] : known) {
    if (known_hash != hash) continue;
    style = {family, system};
    return true;
  }
  return false;
}

}  // namespace text
RLCORE_END
