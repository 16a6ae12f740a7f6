// Tool-call parser for the Hermes and Qwen format: <tool_call>{"name", "arguments"}</tool_call>.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/text_stream.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/python_json.hpp"

RLCORE_BEGIN
namespace serving {

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
  return {value["name"].get<std::string>(), arguments == value.end() ? "{}"
                                            : arguments->is_string() ? arguments->get<std::string>()
                                                                     : text::python_json(*arguments)};
}

}  // namespace serving
RLCORE_END
#endif
