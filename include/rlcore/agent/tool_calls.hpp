// Tool calls in the text of a turn, and the texts of tools before the policy reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/message.hpp"

RLCORE_BEGIN
namespace agent {

/// What a turn says and what it calls.
struct parsed_turn {
  std::string content;                 ///< the text without the blocks of calls
  std::vector<text::tool_call> calls;  ///< in their order
  std::size_t failures = 0;            ///< blocks that are no call
};

/// Lists and objects in a block may be nested this deep, the block's own object included.
inline constexpr std::size_t call_depth_limit = 64;

/// Reads <tool_call>{"name": ..., "arguments": ...}</tool_call> as verl's HermesToolParser does. A block reaches from
/// an opening tag to the next closing tag; without one, all of the text is content. A block is a call if it is a JSON
/// object with a text as name, and with arguments, which may be any JSON value; other members are ignored. All blocks
/// are left out of the content.
///
/// JSON is that of Python's json.loads: NaN, Infinity and -Infinity are floats, as is what a double does not hold;
/// integers are exact up to 4300 digits (text::big_integer beyond 64 bits), longer ones make the block no call; of
/// equal keys the last one counts, at the place of the first. Two things differ: lone surrogates become U+FFFD, and
/// blocks nested deeper than call_depth_limit are no calls. Broken UTF-8 is read as U+FFFD. Takes any bytes, in linear
/// time.
parsed_turn parse_hermes(std::string_view text);

/// json.dumps(arguments, ensure_ascii=False), with NaN, Infinity and the digits of big integers: what verl hands to a
/// tool's json.loads.
std::string arguments_text(const nlohmann::ordered_json& arguments);

/// Where a text that is too long loses a part.
enum class cut_side { left, middle, right };

/// A text of at most `longest` code points as it is. Of a longer one `left` keeps the last `longest` and `right` the
/// first, as verl since 0.8.0 (before, the two were swapped); `middle` keeps half from each end. "(truncated)" and dots
/// mark the place and are not counted. Where nothing is to be kept (`longest` below 1, or below 2 in the middle)
/// nothing is, while Python's text[-0:] keeps all.
std::string cut_tool_text(std::string_view text, std::int64_t longest, cut_side side);

/// The text of a tool: broken parts of its UTF-8 become U+FFFD, as for errors="replace" in Python, and so do zero
/// bytes. At most `most_bytes` long: ends before the first character that does not fit.
std::string clean_tool_text(std::string_view bytes, std::size_t most_bytes = std::size_t{1} << 20);

}  // namespace agent
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_AGENT)
#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "rlcore/text/big_integer.hpp"
#include "rlcore/text/json_builder.hpp"
#include "rlcore/text/python_json.hpp"
#include "rlcore/text/utf8.hpp"

RLCORE_BEGIN
namespace agent::detail {

/// Reads a JSON value as Python's json.loads does. Keeps the open lists and objects in a list: no recursion.
class call_reader final : private text::json_builder<nlohmann::ordered_json> {
 public:
  explicit call_reader(std::string_view text) : json_builder(false, call_depth_limit), text_(text) {}

  /// The value, or nothing if the text is not exactly one.
  std::optional<nlohmann::ordered_json> value();

 private:
  static constexpr std::size_t most_digits = 4300;  // sys.get_int_max_str_digits()

  /// The next byte; zero at the end. A zero byte in the text is valid nowhere, either.
  char next() const noexcept { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) noexcept { return next() == c && c != '\0' ? ++at_, true : false; }
  bool take(std::string_view word) noexcept {
    const bool found = text_.substr(at_).starts_with(word);
    if (found) at_ += word.size();
    return found;
  }
  void skip_space() noexcept { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }
  std::size_t digits() noexcept {
    const std::size_t begin = at_;
    while (next() >= '0' && next() <= '9') ++at_;
    return at_ - begin;
  }

  bool begin();   ///< a scalar, an empty list or object, or the opening bracket of one
  bool member();  ///< a key and its colon
  bool end_or_further(bool& complete);
  bool number();
  bool real(std::string_view token);
  bool text_in_quotes(std::string& out);
  bool escape(std::string& out);
  std::optional<std::uint32_t> four_digits() noexcept;

  std::string_view text_;
  std::size_t at_ = 0;
  std::string brackets_;  ///< '[' or '{' of what is open
};

RLCORE_INLINE std::optional<nlohmann::ordered_json> call_reader::value() {
  for (bool complete = false; !complete;) {
    skip_space();
    const std::size_t open = brackets_.size();
    if (!begin()) return std::nullopt;
    if (brackets_.size() > open) continue;  // the first item follows
    if (!end_or_further(complete)) return std::nullopt;
  }
  return json_builder::take();
}

/// Ends lists and objects behind a value, up to a comma or the end of the text.
RLCORE_INLINE bool call_reader::end_or_further(bool& complete) {
  for (;;) {
    skip_space();
    if (brackets_.empty()) return complete = true, at_ == text_.size();
    const bool object = brackets_.back() == '{';
    if (take(',')) return !object || member();
    if (!take(object ? '}' : ']')) return false;
    object ? end_object() : end_array();
    brackets_.pop_back();
  }
}

RLCORE_INLINE bool call_reader::begin() {
  if (take('{')) {
    if (!start_object(SIZE_MAX)) return false;
    skip_space();
    if (take('}')) return end_object();
    brackets_ += '{';
    return member();
  }
  if (take('[')) {
    if (!start_array(SIZE_MAX)) return false;
    skip_space();
    if (take(']')) return end_array();
    brackets_ += '[';
    return true;
  }
  if (next() == '"') {
    std::string s;
    return text_in_quotes(s) && string(s);
  }
  using limits = std::numeric_limits<double>;
  if (take("null")) return null();
  if (take("true")) return boolean(true);
  if (take("false")) return boolean(false);
  if (take("NaN")) return put(limits::quiet_NaN());
  if (take("Infinity")) return put(limits::infinity());
  if (take("-Infinity")) return put(-limits::infinity());
  return number();
}

RLCORE_INLINE bool call_reader::member() {
  skip_space();
  std::string name;
  if (next() != '"' || !text_in_quotes(name)) return false;
  key(name);
  skip_space();
  return take(':');
}

RLCORE_INLINE bool call_reader::number() {
  const std::size_t begin = at_;
  const bool negative = take('-'), zero = next() == '0';
  if (zero) ++at_;
  const std::size_t whole = zero ? 1 : digits();
  if (whole == 0) return false;
  bool exact = true;
  if (const std::size_t point = at_; take('.')) {
    if (digits() > 0)
      exact = false;
    else
      at_ = point;
  }
  if (const std::size_t e = at_; take('e') || take('E')) {
    if (!take('+')) take('-');
    if (digits() > 0)
      exact = false;
    else
      at_ = e;
  }
  const std::string_view token = text_.substr(begin, at_ - begin);
  if (!exact) return real(token);
  if (whole > most_digits) return false;
  const auto held_by = [&](auto& x) {
    return std::from_chars(token.data(), token.data() + token.size(), x).ec == std::errc();
  };
  std::uint64_t natural = 0;
  std::int64_t integer = 0;
  if (!negative && held_by(natural)) return number_unsigned(natural);
  if (negative && held_by(integer)) return number_integer(integer);
  return put(text::big_integer<nlohmann::ordered_json>(token));
}

/// A number with a fraction or an exponent. One that no double holds is infinite, or zero if it is too small.
RLCORE_INLINE bool call_reader::real(std::string_view token) {
  double x = 0;
  if (std::from_chars(token.data(), token.data() + token.size(), x).ec == std::errc()) return put(x);
  const bool negative = token[0] == '-';
  const std::size_t e = std::min(token.find_first_of("eE"), token.size());
  const std::size_t point = std::min(token.find('.'), e), first = token.find_first_of("123456789");
  auto order = static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first);
  if (e < token.size()) {
    constexpr std::int64_t most = std::int64_t{1} << 40;
    std::int64_t exponent = 0;
    for (const char c : token.substr(e + 1))
      if (c >= '0' && c <= '9') exponent = std::min(10 * exponent + (c - '0'), most);
    order += token[e + 1] == '-' ? -exponent : exponent;
  }
  x = order > 0 ? std::numeric_limits<double>::infinity() : 0.0;
  return put(negative ? -x : x);
}

RLCORE_INLINE bool call_reader::text_in_quotes(std::string& out) {
  for (++at_; at_ < text_.size();) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' && static_cast<std::uint8_t>(text_[at_]) >= 32)
      ++at_;
    out += text_.substr(begin, at_ - begin);
    if (take('"')) return true;
    if (!take('\\') || !escape(out)) return false;
  }
  return false;
}

RLCORE_INLINE bool call_reader::escape(std::string& out) {
  constexpr std::string_view names = "\"\\/bfnrt", characters = "\"\\/\b\f\n\r\t";
  const char name = next();
  if (const std::size_t i = names.find(name); name != '\0' && i != names.npos) return ++at_, out += characters[i], true;
  if (!take('u')) return false;
  const std::optional<std::uint32_t> first = four_digits();
  if (!first) return false;
  char32_t c = *first;
  if (c >= 0xD800 && c < 0xDC00 && text_.substr(at_).starts_with("\\u")) {
    const std::size_t begin = std::exchange(at_, at_ + 2);
    const std::optional<std::uint32_t> second = four_digits();
    if (second && *second >= 0xDC00 && *second < 0xE000)
      c = 0x10000 + ((c - 0xD800) << 10) + (*second - 0xDC00);
    else
      at_ = begin;  // the next escape stands for itself
  }
  text::append_utf8(out, c >= 0xD800 && c < 0xE000 ? U'\uFFFD' : c);
  return true;
}

RLCORE_INLINE std::optional<std::uint32_t> call_reader::four_digits() noexcept {
  if (text_.size() - at_ < 4) return std::nullopt;
  std::uint32_t code = 0;
  const char* const begin = text_.data() + at_;
  if (std::from_chars(begin, begin + 4, code, 16).ptr != begin + 4) return std::nullopt;
  at_ += 4;
  return code;
}

/// The call in a block, if it is one.
inline std::optional<text::tool_call> call_in(std::string_view block) {
  std::optional<nlohmann::ordered_json> json = call_reader(block).value();
  if (!json || !json->is_object()) return std::nullopt;
  const auto name = json->find("name"), arguments = json->find("arguments");
  if (name == json->end() || !name->is_string() || arguments == json->end()) return std::nullopt;
  return text::tool_call{std::move(name->get_ref<std::string&>()), std::move(*arguments)};
}

/// The byte behind the first `count` code points of valid UTF-8.
inline std::size_t bytes_of(std::string_view text, std::size_t count) noexcept {
  std::size_t at = 0;
  for (; at < text.size(); ++at)
    if ((static_cast<std::uint8_t>(text[at]) & 0xC0) != 0x80 && count-- == 0) break;
  return at;
}

}  // namespace agent::detail

namespace agent {

RLCORE_INLINE parsed_turn parse_hermes(std::string_view text) {
  if (text::first_broken_utf8(text) != text.size()) return parse_hermes(text::utf8_lossy(text));
  constexpr std::string_view opening = "<tool_call>", closing = "</tool_call>";  // '<' only begins them: find is linear
  parsed_turn turn;
  std::size_t done = 0;
  for (;;) {
    const std::size_t begin = text.find(opening, done);
    if (begin == text.npos) break;
    const std::size_t inside = begin + opening.size(), end = text.find(closing, inside);
    if (end == text.npos) break;
    turn.content += text.substr(done, begin - done);
    done = end + closing.size();
    if (auto call = detail::call_in(text.substr(inside, end - inside)))
      turn.calls.push_back(std::move(*call));
    else
      ++turn.failures;
  }
  turn.content += text.substr(done);
  return turn;
}

RLCORE_INLINE std::string arguments_text(const nlohmann::ordered_json& arguments) {
  if (text::is_big_integer(arguments)) return text::integer_digits(arguments);
  if (!arguments.is_structured()) return text::python_json(arguments);
  std::string out = arguments.is_object() ? "{" : "[";
  const char* separator = "";
  for (const auto& [key, part] : arguments.items()) {
    out += separator;
    separator = ", ";
    if (arguments.is_object()) text::append_python_string(out, key), out += ": ";
    out += arguments_text(part);
  }
  return out += arguments.is_object() ? '}' : ']';
}

RLCORE_INLINE std::string cut_tool_text(std::string_view text, std::int64_t longest, cut_side side) {
  const auto limit = static_cast<std::size_t>(std::max<std::int64_t>(0, longest));
  const auto points = static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<std::uint8_t>(c) & 0xC0) != 0x80; }));
  if (points <= limit) return std::string(text);
  const std::size_t kept = side == cut_side::middle ? limit / 2 : limit;
  std::string out;
  if (side != cut_side::left) out += text.substr(0, detail::bytes_of(text, kept));
  out += side == cut_side::left ? "(truncated)..." : side == cut_side::right ? "...(truncated)" : "...(truncated)...";
  if (side != cut_side::right) out += text.substr(detail::bytes_of(text, points - kept));
  return out;
}

RLCORE_INLINE std::string clean_tool_text(std::string_view bytes, std::size_t most_bytes) {
  constexpr std::string_view replacement = "\xEF\xBF\xBD";
  std::string out;
  out.reserve(std::min(bytes.size(), most_bytes));
  for (std::size_t at = 0; at < bytes.size();) {
    const text::utf8_step step = text::read_utf8(bytes, at);
    const bool valid = step.type == text::utf8_step::kind::character && bytes[at] != '\0';
    const std::string_view character = valid ? bytes.substr(at, step.length) : replacement;
    if (out.size() + character.size() > most_bytes) break;
    out += character;
    at += step.length;
  }
  return out;
}

}  // namespace agent
RLCORE_END
#endif
