// Reasoning parser: separates reasoning from content.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/serving/text_stream.hpp"

RLCORE_BEGIN
namespace serving {

/// Reasoning formats (--reasoning-parser). qwen3: between <think> and </think>, if an answer begins with the first.
/// deepseek_r1: everything up to </think>, with or without <think>.
enum class reasoning_form { none, qwen3, deepseek_r1 };

/// The form of this name. Throws config_error for an unknown one.
reasoning_form reasoning_form_of(const std::string& name);

/// A piece of an answer in two parts.
struct split_text {
  std::string reasoning, content;
};

/// Splits an answer while it grows. The joined pieces do not depend on how the response was split.
class reasoning_splitter {
 public:
  /// Splits an answer of this form.
  explicit reasoning_splitter(reasoning_form form) : form_(form) {
    if (form_ == reasoning_form::none) where_ = place::content;
  }

  /// Takes the next piece; `last` marks the final one.
  split_text push(std::string_view piece, bool last);

 private:
  enum class place { start, reasoning, content };
  static constexpr std::string_view open = "<think>", close = "</think>";

  reasoning_form form_;
  place where_ = place::start;
  std::string held_;
};

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE reasoning_form reasoning_form_of(const std::string& name) {
  if (name.empty()) return reasoning_form::none;
  if (name == "qwen3") return reasoning_form::qwen3;
  if (name == "deepseek_r1") return reasoning_form::deepseek_r1;
  throw config_error("--reasoning-parser " + name + " is unknown; expected qwen3 or deepseek_r1");
}

RLCORE_INLINE split_text reasoning_splitter::push(std::string_view piece, bool last) {
  split_text out;
  if (where_ == place::content) {
    out.content = piece;
    return out;
  }
  held_ += piece;
  if (where_ == place::start) {
    if (!last && open.starts_with(held_) && held_.size() < open.size()) return out;
    const bool opened = held_.starts_with(open);
    if (opened) held_.erase(0, open.size());
    where_ = opened || form_ == reasoning_form::deepseek_r1 ? place::reasoning : place::content;
  }
  if (where_ == place::content) {
    out.content = std::exchange(held_, {});
    return out;
  }
  if (const std::size_t end = held_.find(close); end != held_.npos) {
    out.reasoning = held_.substr(0, end);
    out.content = held_.substr(end + close.size());
    held_.clear();
    where_ = place::content;
    return out;
  }
  const std::size_t kept = last ? 0 : overlap(held_, close);
  out.reasoning = held_.substr(0, held_.size() - kept);
  held_.erase(0, out.reasoning.size());
  return out;
}

}  // namespace serving
RLCORE_END
#endif
