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

/// Reads a text byte by byte and knows how much of `word` it ends with (Knuth, Morris and Pratt 1977): any text takes
/// time linear in its length, however long the word is.
class word_follower {
 public:
  /// Follows `word`, which is not empty and must outlive this.
  explicit word_follower(std::string_view word) : word_(word) {}

  /// Takes the next byte; true if the text now ends with the word.
  bool push(char c);
  /// The length of the longest suffix of the text that is a proper prefix of the word.
  std::size_t begun() const noexcept { return begun_; }
  std::string_view word() const noexcept { return word_; }

 private:
  /// begun() behind `begun` bytes of the word and `c`.
  std::size_t next(std::size_t begun, char c) const noexcept;
  /// The longest other beginning of the word that its first `begun` > 0 bytes end with.
  std::size_t back(std::size_t begun) const noexcept { return begun == 1 ? 0 : back_[begun - 2]; }

  std::string_view word_;
  std::vector<std::uint32_t> back_;  // back(2), back(3) and so on, as far as a text has reached
  std::size_t begun_ = 0;
};

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
  std::vector<word_follower> followers_;  // of stops_, while there is a text to follow
  bool include_stop_;
  std::int64_t early_;  // remaining tokens whose text is exempt from stop strings
  std::string held_;
  std::size_t shown_ = 0;  // bytes of held_ that were emitted
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

  /// Forgets the first bytes of what is held.
  void drop(std::size_t size);

  std::string held_;
  std::size_t closed_ = 0;  // no mark that closes a block of held_ begins before
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
  followers_ = {};
  if (!stopped()) shown += std::exchange(held_, {}).substr(std::exchange(shown_, 0));
  return shown;
}

RLCORE_INLINE std::size_t word_follower::next(std::size_t begun, char c) const noexcept {
  while (begun > 0 && word_[begun] != c) begun = back(begun);
  return word_[begun] == c ? begun + 1 : 0;
}

RLCORE_INLINE bool word_follower::push(char c) {
  begun_ = next(begun_, c);
  if (begun_ > back_.size() + 1) back_.push_back(static_cast<std::uint32_t>(next(back(begun_ - 1), c)));
  if (begun_ < word_.size()) return false;
  begun_ = back(begun_);
  return true;
}

RLCORE_INLINE std::string text_stream::take(const std::string& piece, bool early) {
  if (followers_.empty())
    for (const std::string& stop : stops_)
      if (!stop.empty()) followers_.emplace_back(stop);
  for (const char c : piece) {
    held_ += c;
    const word_follower* complete = nullptr;  // the longest stop string that ends here
    for (word_follower& s : followers_)
      if (s.push(c) && !early && (complete == nullptr || s.word().size() > complete->word().size())) complete = &s;
    if (complete == nullptr) continue;
    stop_ = complete->word();
    if (!include_stop_) held_.resize(held_.size() - complete->word().size());
    followers_ = {};
    return std::exchange(held_, {}).substr(std::exchange(shown_, 0));
  }
  std::size_t kept = 0;
  for (const word_follower& s : followers_) kept = std::max(kept, s.begun());
  std::string shown = held_.substr(shown_, held_.size() - kept - shown_);
  shown_ += shown.size();
  if (2 * shown_ >= held_.size()) held_.erase(0, std::exchange(shown_, 0));
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
  std::size_t at = 0;  // what lies before has been shown, or was a call
  for (;;) {
    const std::size_t begin = held_.find(open, at);
    if (begin == held_.npos) {
      const std::size_t kept = last ? 0 : overlap(std::string_view(held_).substr(at), open);
      show(held_.substr(at, held_.size() - kept - at), out);
      drop(held_.size() - kept);
      return out;
    }
    show(held_.substr(at, begin - at), out);
    const std::size_t body = begin + open.size();
    closed_ = std::max(closed_, body);
    if (!std::string_view(held_).substr(closed_).starts_with(close))  // else it was found for an earlier block
      closed_ = std::min(held_.find(close, closed_), held_.size());
    if (closed_ == held_.size() && !last) {
      closed_ -= std::min(held_.size() - body, close.size() - 1);  // a part of the mark may be there
      drop(begin);
      return out;
    }
    if (auto call = call_of(std::string_view(held_).substr(body, closed_ - body)); !call.name.empty()) {
      out.calls.push_back(std::move(call));
      called_ = true;
      at = std::min(closed_ + close.size(), held_.size());
    } else {
      show(held_.substr(begin, open.size()), out);  // the rest may contain a further call
      at = body;
    }
  }
}

RLCORE_INLINE void tool_call_parser::drop(std::size_t size) {
  held_.erase(0, size);
  closed_ -= std::min(closed_, size);
}

RLCORE_INLINE called_tool tool_call_parser::call_of(std::string_view block) {
  const json value = text::try_parse_json<json>(block);  // mostly ends early where the block is no call
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
