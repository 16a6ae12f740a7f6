// The text of an answer as it grows: an incremental detokenizer with stop strings, which emits whole characters only
// and holds back a possible beginning of a stop string; reasoning and tool calls in that text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/python_json.hpp"
#include "rlcore/text/stream_decoder.hpp"
#include "rlcore/text/tokenizer.hpp"

RLCORE_BEGIN
namespace serving {

/// The length of the longest suffix of `text` that is a proper prefix of `mark`.
inline std::size_t overlap(std::string_view text, std::string_view mark) noexcept {
  for (std::size_t n = std::min(text.size(), mark.empty() ? 0 : mark.size() - 1); n > 0; --n)
    if (text.substr(text.size() - n) == mark.substr(0, n)) return n;
  return 0;
}

/// All pieces together, finish() included, are the tokenizer's decoding of all ids at once, cut at the first complete
/// stop string; of several that end at the same position the longest counts. One that is complete within the text of
/// the first `min_tokens` tokens does not count, as in vLLM.
class text_stream {
 public:
  /// `include_stop` leaves the stop string in the text. The stop strings must outlive the stream.
  text_stream(const text::tokenizer& tokenizer, std::span<const std::string> stops, bool include_stop,
              bool skip_special_tokens, std::int64_t min_tokens = 0)
      : decoder_(tokenizer, skip_special_tokens), stops_(stops), include_stop_(include_stop), early_(min_tokens) {}

  /// The text that can be emitted now; empty after a stop string.
  std::string push(std::int32_t id);
  /// The rest of the text.
  std::string finish();
  /// The stop string that ended the text.
  const std::optional<std::string>& stop() const noexcept { return stop_; }
  bool stopped() const noexcept { return stop_.has_value(); }

 private:
  std::string take(const std::string& piece, bool early);

  text::stream_decoder decoder_;
  std::span<const std::string> stops_;
  bool include_stop_;
  std::int64_t early_;         // remaining tokens whose text is exempt from stop strings
  std::size_t too_early_ = 0;  // characters of held_ that belong to such tokens
  std::string held_;
  std::optional<std::string> stop_;
};

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

/// A call; `arguments` is JSON text.
struct called_tool {
  std::string name, arguments;
};

/// A piece of an answer: its text and the calls that it completes.
struct text_and_calls {
  std::string content;
  std::vector<called_tool> calls;
};

/// Finds calls while an answer grows. The content is the text before the first call; a block that is not a call stays
/// text. The joined pieces do not depend on how the response was split.
class tool_call_parser {
 public:
  /// Takes the next piece; `last` marks the final one, which closes an open block.
  text_and_calls push(std::string_view piece, bool last);
  /// Whether the answer has called a tool so far.
  bool called() const noexcept { return called_; }

 private:
  static constexpr std::string_view open = "<tool_call>", close = "</tool_call>";

  void show(const std::string& text, text_and_calls& out) const {
    if (!called_) out.content += text;
  }
  /// Without a name if `block` is no call.
  static called_tool call_of(std::string_view block);

  std::string held_;
  bool called_ = false;
};

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE std::string text_stream::push(std::int32_t id) {
  if (stopped()) return {};
  const std::string piece = decoder_.push(id);
  const bool early = early_ > 0;
  if (early) --early_;
  return take(piece, early);
}

RLCORE_INLINE std::string text_stream::finish() {
  if (stopped()) return {};
  std::string shown = take(decoder_.finish(), early_ > 0);
  if (!stopped()) shown += std::exchange(held_, {});
  return shown;
}

RLCORE_INLINE std::string text_stream::take(const std::string& piece, bool early) {
  held_ += piece;
  if (early) too_early_ = held_.size();
  std::size_t first = held_.npos, end = held_.npos;
  for (const std::string& s : stops_) {
    const std::size_t at = held_.find(s, too_early_ < s.size() ? 0 : too_early_ - s.size() + 1);
    if (at == held_.npos || (stop_ && (at + s.size() > end || (at + s.size() == end && at >= first)))) continue;
    stop_ = s, first = at, end = at + s.size();
  }
  if (stop_) {
    held_.resize(include_stop_ ? end : first);
    return std::exchange(held_, {});
  }
  std::size_t kept = 0;
  for (const std::string& s : stops_) kept = std::max(kept, overlap(held_, s));
  std::string shown = held_.substr(0, held_.size() - kept);
  held_.erase(0, shown.size());
  too_early_ -= std::min(too_early_, shown.size());
  return shown;
}

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

RLCORE_INLINE text_and_calls tool_call_parser::push(std::string_view piece, bool last) {
  text_and_calls out;
  held_ += piece;
  for (;;) {
    const std::size_t begin = held_.find(open);
    if (begin == held_.npos) {
      const std::size_t kept = last ? 0 : overlap(held_, open);
      show(held_.substr(0, held_.size() - kept), out);
      held_.erase(0, held_.size() - kept);
      return out;
    }
    show(held_.substr(0, begin), out);
    held_.erase(0, begin);
    const std::size_t end = held_.find(close, open.size());
    if (end == held_.npos && !last) return out;
    const std::size_t body = end == held_.npos ? held_.size() : end;
    const std::size_t whole = end == held_.npos ? held_.size() : end + close.size();
    if (auto call = call_of(std::string_view(held_).substr(open.size(), body - open.size())); !call.name.empty()) {
      out.calls.push_back(std::move(call));
      called_ = true;
      held_.erase(0, whole);
    } else {
      show(held_.substr(0, open.size()), out);  // the rest may contain a further call
      held_.erase(0, open.size());
    }
  }
}

RLCORE_INLINE called_tool tool_call_parser::call_of(std::string_view block) {
  const json value = text::try_parse_json<json>(block);
  if (!value.is_object() || !value.contains("name") || !value["name"].is_string()) return {};
  const auto arguments = value.find("arguments");
  std::string name = value["name"].get<std::string>();
  if (arguments == value.end() || arguments->is_null()) return {std::move(name), "{}"};
  if (arguments->is_string() && text::try_parse_json<json>(arguments->get_ref<const std::string&>()).is_object())
    return {std::move(name), arguments->get<std::string>()};
  return {std::move(name), text::python_json(*arguments)};
}

}  // namespace serving
RLCORE_END
#endif
