// Jinja lexer with the white space rules of transformers' environment.
#pragma once

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/utf8.hpp"

RLCORE_BEGIN
namespace text::jinja {

/// Token kinds.
enum class word_kind : std::uint8_t {
  data,
  open_tag,
  close_tag,
  open_output,
  close_output,
  name,
  string,
  integer,
  real,
  sign,
  end
};

/// A word; `text` is the text of data, the content of a string, the digits of a number.
struct word {
  word_kind kind = word_kind::end;
  int line = 0;
  std::string text = {};
};

/// Cuts a template as jinja2 3.1 does with trim_blocks and lstrip_blocks: a line end behind a tag goes, blanks before a
/// tag that is first on its line go, {%- and -%} take all white space on their side. Linear in the size.
class lexer {
 public:
  /// `source` in UTF-8; CR LF counts as a line end, one line end at the very end is dropped.
  explicit lexer(std::string_view source);

  /// All words. Throws format_error "line N: ...".
  std::vector<word> run();

 private:
  static bool is_one_of(char c, std::string_view set) noexcept { return set.find(c) != set.npos; }
  static bool space(char c) noexcept { return std::isspace(static_cast<unsigned char>(c)) != 0; }
  [[noreturn]] void fail(const std::string& message) const {
    throw format_error("line " + std::to_string(line_) + ": " + message);
  }
  void add(word_kind kind, std::string_view text) { words_.push_back({kind, line_, std::string(text)}); }
  /// Moves to `position` and counts lines.
  void move(std::size_t position) {
    for (; at_ < position; ++at_) line_ += source_[at_] == '\n';
  }

  /// The text before a tag of the kind, which begins at `end`, without the blanks that the tag takes; moves behind the
  /// tag's opening.
  void data(std::size_t end, char kind);

  /// Moves past a closing mark of `size` bytes and the white space that it strips.
  void close(std::size_t size, bool all_space, bool line_end);

  void comment();

  /// {% raw %}...{% endraw %}; false if {% starts another tag.
  bool raw();

  /// The words of a tag or of an output up to its closing mark, which cannot stand inside brackets.
  void inside(word_kind open, word_kind closed, std::string_view mark);

  void one_word(std::string_view rest, std::string& brackets);

  void number(std::string_view rest);

  /// A literal with Python's escapes.
  void string(std::string_view rest);

  std::string source_;
  std::vector<word> words_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool starts_line_ = true;
};

}  // namespace text::jinja
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text::jinja {

RLCORE_INLINE lexer::lexer(std::string_view source) {
  source_.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r')
      source_ += source[i];
    else if (i + 1 == source.size() || source[i + 1] != '\n')
      source_ += '\n';
  }
  if (!source_.empty() && source_.back() == '\n') source_.pop_back();
}

RLCORE_INLINE std::vector<word> lexer::run() {
  while (at_ < source_.size()) {
    std::size_t open = source_.find('{', at_);
    while (open != std::string::npos && (open + 1 == source_.size() || !is_one_of(source_[open + 1], "%{#")))
      open = source_.find('{', open + 1);
    const char kind = open == std::string::npos ? '\0' : source_[open + 1];
    data(open == std::string::npos ? source_.size() : open, kind);
    if (kind == '\0') break;
    if (kind == '#')
      comment();
    else if (kind == '{')
      inside(word_kind::open_output, word_kind::close_output, "}}");
    else if (!raw())
      inside(word_kind::open_tag, word_kind::close_tag, "%}");
  }
  add(word_kind::end, "");
  return std::move(words_);
}

RLCORE_INLINE void lexer::data(std::size_t end, char kind) {
  std::string_view text = std::string_view(source_).substr(at_, end - at_);
  std::size_t behind = end;
  if (kind != '\0') {
    behind += 2;
    const char sign = behind < source_.size() ? source_[behind] : '\0';
    if (sign == '-') {
      while (!text.empty() && space(text.back())) text.remove_suffix(1);
    } else if (kind != '{' && sign != '+') {
      const std::size_t line_end = text.rfind('\n');
      const std::size_t begin = line_end == text.npos ? 0 : line_end + 1;
      const bool first = line_end != text.npos || starts_line_;
      if (first && text.find_first_not_of(" \t\v\f", begin) == text.npos) text = text.substr(0, begin);
    }
    if (sign == '-' || sign == '+') ++behind;
  }
  if (!text.empty()) add(word_kind::data, text);
  move(behind);
}

RLCORE_INLINE void lexer::close(std::size_t size, bool all_space, bool line_end) {
  move(at_ + size);
  starts_line_ = false;
  if (all_space) {
    std::size_t to = at_;
    while (to < source_.size() && space(source_[to])) ++to;
    starts_line_ = to > at_ && source_[to - 1] == '\n';
    move(to);
  } else if (line_end && at_ < source_.size() && source_[at_] == '\n') {
    starts_line_ = true;
    move(at_ + 1);
  }
}

RLCORE_INLINE void lexer::comment() {
  const std::size_t end = source_.find("#}", at_);
  if (end == std::string::npos) fail("a comment {# without #}");
  const char sign = end > at_ ? source_[end - 1] : '\0';
  move(end);
  close(2, sign == '-', sign != '+');
}

RLCORE_INLINE bool lexer::raw() {
  const auto tag = [&](std::size_t from, std::string_view name) -> std::size_t {  // behind %}, 0 if it is another tag
    while (from < source_.size() && space(source_[from])) ++from;
    if (source_.compare(from, name.size(), name) != 0) return 0;
    from += name.size();
    while (from < source_.size() && space(source_[from])) ++from;
    if (source_.compare(from, 3, "-%}") == 0) return from + 3;
    return source_.compare(from, 2, "%}") == 0 ? from + 2 : 0;
  };
  const std::size_t begin = tag(at_, "raw");
  if (begin == 0) return false;
  const bool strip_front = source_[begin - 3] == '-';
  for (std::size_t end = source_.find("{%", begin); end != std::string::npos; end = source_.find("{%", end + 2)) {
    const bool strip_back = end + 2 < source_.size() && source_[end + 2] == '-';
    const bool signed_end = strip_back || (end + 2 < source_.size() && source_[end + 2] == '+');
    const std::size_t behind = tag(end + 2 + signed_end, "endraw");
    if (behind == 0) continue;
    std::string_view text = std::string_view(source_).substr(begin, end - begin);
    while (strip_front && !text.empty() && space(text.front())) text.remove_prefix(1);
    while (strip_back && !text.empty() && space(text.back())) text.remove_suffix(1);
    if (!text.empty()) add(word_kind::data, text);
    move(behind);
    close(0, source_[behind - 3] == '-', true);
    return true;
  }
  fail("{% raw %} without {% endraw %}");
}

RLCORE_INLINE void lexer::inside(word_kind open, word_kind closed, std::string_view mark) {
  add(open, "");
  std::string brackets;
  for (;;) {
    std::size_t to = at_;
    while (to < source_.size() && space(source_[to])) ++to;
    move(to);
    if (at_ >= source_.size()) fail("a tag without " + std::string(mark));
    const std::string_view rest = std::string_view(source_).substr(at_);
    if (brackets.empty()) {
      const char sign = is_one_of(rest[0], "-+") ? rest[0] : '\0';
      const bool taken = sign == '-' || (sign == '+' && mark == "%}");
      if (rest.substr(taken).starts_with(mark)) {
        add(closed, "");
        return close(taken + mark.size(), sign == '-', mark == "%}" && sign != '+');
      }
    }
    one_word(rest, brackets);
  }
}

RLCORE_INLINE void lexer::one_word(std::string_view rest, std::string& brackets) {
  const char c = rest[0];
  const auto letter = [](char x) { return std::isalnum(static_cast<unsigned char>(x)) != 0 || x == '_' || (x & 0x80); };
  if (c == '\'' || c == '"') return string(rest);
  if (c >= '0' && c <= '9') return number(rest);
  std::size_t n = 0;
  if (letter(c)) {
    while (n < rest.size() && letter(rest[n])) ++n;
    add(word_kind::name, rest.substr(0, n));
    return move(at_ + n);
  }
  for (const std::string_view sign : {"==", "!=", "<=", ">=", "//", "**"})
    if (rest.starts_with(sign)) n = 2;
  if (n == 0 && is_one_of(c, "+-*/%~<>=.:,|()[]{}")) n = 1;
  if (n == 0) fail("unexpected character '" + std::string(rest.substr(0, 1)) + "'");
  if (is_one_of(c, "([{")) {
    brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
  } else if (is_one_of(c, ")]}")) {
    if (brackets.empty() || brackets.back() != c) fail(std::string("unexpected '") + c + "'");
    brackets.pop_back();
  }
  add(word_kind::sign, rest.substr(0, n));
  move(at_ + n);
}

RLCORE_INLINE void lexer::number(std::string_view rest) {
  const auto digit = [&](std::size_t i) { return i < rest.size() && rest[i] >= '0' && rest[i] <= '9'; };
  std::string digits;
  std::size_t n = 0;
  bool real = false;
  const auto run = [&] {
    for (; digit(n) || (n < rest.size() && rest[n] == '_' && digit(n + 1)); ++n)
      if (rest[n] != '_') digits += rest[n];
  };
  run();
  if (n < rest.size() && rest[n] == '.' && digit(n + 1)) {
    real = true;
    digits += rest[n++];
    run();
  }
  if (n < rest.size() && (rest[n] | 0x20) == 'e' &&
      (digit(n + 1) || (n + 1 < rest.size() && is_one_of(rest[n + 1], "+-") && digit(n + 2)))) {
    real = true;
    digits += rest[n++];
    if (!digit(n)) digits += rest[n++];
    run();
  }
  add(real ? word_kind::real : word_kind::integer, digits);
  move(at_ + n);
}

RLCORE_INLINE void lexer::string(std::string_view rest) {
  std::string text;
  std::size_t n = 1;
  while (n < rest.size() && rest[n] != rest[0]) {
    if (rest[n] != '\\') {
      text += rest[n++];
      continue;
    }
    if (++n >= rest.size()) break;
    constexpr std::string_view letters = "abfnrtv\\'\"", meanings = "\a\b\f\n\r\t\v\\'\"";
    const char c = rest[n++];
    if (const std::size_t known = letters.find(c); known != letters.npos) {
      text += meanings[known];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      std::uint32_t code = 0;
      const auto hex = rest.substr(std::min(n, rest.size()), digits);
      const auto result = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
      if (hex.size() != digits || result.ptr != hex.data() + digits || code > 0x10FFFF || (code >> 11) == 0x1B)
        fail("a string with a broken escape \\" + std::string(1, c));
      append_utf8(text, code);
      n += digits;
    } else if (c >= '0' && c <= '7') {
      std::uint32_t code = static_cast<std::uint32_t>(c - '0');
      for (int i = 0; i < 2 && n < rest.size() && rest[n] >= '0' && rest[n] <= '7'; ++i)
        code = code * 8 + static_cast<std::uint32_t>(rest[n++] - '0');
      append_utf8(text, code);
    } else if (c != '\n') {
      (text += '\\') += c;
    }
  }
  if (n >= rest.size()) fail("a string without its closing quote");
  add(word_kind::string, text);
  move(at_ + n + 1);
}

}  // namespace text::jinja
RLCORE_END
#endif
