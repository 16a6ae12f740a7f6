// One override of the command line: `key=value`, `+key=value`, `++key=value`, `~key`, `~key=value` (Hydra 1.3).
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "rlcore/config/grammar/value.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace train {

/// The prefix of the key: none, +, ++ or ~.
enum class override_kind { change, add, force_add, remove };

/// One override, taken apart.
struct override_setting {
  override_kind kind = override_kind::change;
  std::string key;  ///< dotted path; with '/' for a config group, with '@' before a package
  value item;
  bool has_value = true;  ///< false for `~key`
};

/// Maximum nesting depth of lists and maps.
inline constexpr std::size_t nesting_limit = 1000;

/// Recursive descent over the tokens of a value.
class value_parser {
 public:
  /// `text` must outlive this object. Throws config_error for a character that needs quotes.
  explicit value_parser(std::string_view text) : tokens_(override_lexer(text).run()) {}

  /// The whole text as one value; no token at all is the empty text. Throws config_error.
  value run();

 private:
  bool peek(token_kind kind) const noexcept { return next_ < tokens_.size() && tokens_[next_].kind == kind; }
  bool take(token_kind kind) noexcept { return peek(kind) ? (++next_, true) : false; }
  [[noreturn]] void unexpected() const {
    if (next_ >= tokens_.size()) throw config_error("the value ends too early");
    throw config_error("unexpected '" + std::string(tokens_[next_].text) + "' in the value");
  }

  value element();

  value element_inside();

  std::string key_text() { return scalar_text(primitive(false)); }

  static bool plain(token_kind kind, bool in_value) noexcept;

  /// Adjacent plain tokens: one of them keeps its type, several make a text.
  value primitive(bool in_value);

  static void append(std::string& text, const override_token& token);

  static value typed(const override_token& token);
  static value integer(const std::string& digits);
  static value real(const std::string& digits);

  /// Only backslashes before a quote, or before the closing quote, escape.
  static std::string unquote(std::string_view quoted);

  std::vector<override_token> tokens_;
  std::size_t next_ = 0, depth_ = 0;
};

/// A value as it is typed after `=`. Throws config_error.
inline value parse_value(std::string_view text) {
  // Blanks right after the `=` belong to it.
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  return value_parser(text).run();
}

/// True for a path like a.b-c.0 (first part a name; later parts names or numbers), for a/b (a config group), for either
/// followed by @package, and for the empty path.
bool valid_key(std::string_view key);

/// Reads one override. Throws config_error that shows the whole override.
override_setting parse_override(std::string_view text);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE value value_parser::run() {
  if (tokens_.empty()) return value("");
  value v = element();
  if (next_ < tokens_.size()) {
    if (peek(token_kind::comma))
      throw config_error("ambiguous value: a list is written [a,b], a text with a comma in quotes");
    unexpected();
  }
  return v;
}

RLCORE_INLINE value value_parser::element() {
  if (depth_ == nesting_limit)
    throw config_error("lists and maps are nested deeper than " + std::to_string(nesting_limit));
  ++depth_;
  value v = element_inside();
  --depth_;
  return v;
}

RLCORE_INLINE value value_parser::element_inside() {
  if (take(token_kind::open_bracket)) {
    value::list items;
    if (take(token_kind::close_bracket)) return value(std::move(items));
    do items.push_back(element());
    while (take(token_kind::comma));
    if (!take(token_kind::close_bracket)) unexpected();
    return value(std::move(items));
  }
  if (take(token_kind::open_brace)) {
    constexpr std::size_t most_members = 4096;  // each name is compared with those before it
    value::map members;
    if (take(token_kind::close_brace)) return value(std::move(members));
    do {
      std::string name = key_text();
      if (!take(token_kind::colon)) unexpected();
      value item = element();
      bool known = false;
      for (member& m : members)
        if (m.name == name) m.item = item, known = true;
      if (!known) members.push_back({std::move(name), std::move(item)});
      if (members.size() > most_members)
        throw config_error("a map of more than " + std::to_string(most_members) + " members");
    } while (take(token_kind::comma));
    if (!take(token_kind::close_brace)) unexpected();
    return value(std::move(members));
  }
  if (peek(token_kind::name) && next_ + 1 < tokens_.size() && tokens_[next_ + 1].kind == token_kind::open_paren)
    throw config_error("the function '" + std::string(tokens_[next_].text) +
                       "(...)' is not offered; parentheses in a text need quotes");
  if (peek(token_kind::quoted)) return value(unquote(tokens_[next_++].text));
  return primitive(true);
}

RLCORE_INLINE bool value_parser::plain(token_kind kind, bool in_value) noexcept {
  switch (kind) {
    case token_kind::name:
    case token_kind::null:
    case token_kind::integer:
    case token_kind::real:
    case token_kind::boolean:
    case token_kind::other:
    case token_kind::escaped:
    case token_kind::blank:
      return true;
    case token_kind::colon:
    case token_kind::interpolation:
      return in_value;
    default:
      return false;
  }
}

RLCORE_INLINE value value_parser::primitive(bool in_value) {
  std::size_t first = next_;
  while (next_ < tokens_.size() && plain(tokens_[next_].kind, in_value)) ++next_;
  std::size_t last = next_;
  if (first == last) unexpected();
  if (tokens_[first].kind == token_kind::blank) ++first;
  if (first == last) throw config_error("the value is only blanks; quote it");
  if (tokens_[last - 1].kind == token_kind::blank) --last;
  if (last - first == 1) return typed(tokens_[first]);
  std::string text;
  for (std::size_t i = first; i < last; ++i) append(text, tokens_[i]);
  return value(std::move(text));
}

RLCORE_INLINE void value_parser::append(std::string& text, const override_token& token) {
  if (token.kind != token_kind::escaped) {
    text += token.text;
    return;
  }
  for (std::size_t i = 1; i < token.text.size(); i += 2) text += token.text[i];
}

RLCORE_INLINE value value_parser::typed(const override_token& token) {
  std::string digits;
  switch (token.kind) {
    case token_kind::null:
      return {};
    case token_kind::boolean:
      return (token.text[0] | 0x20) == 't';
    case token_kind::integer:
    case token_kind::real:
      for (const char c : token.text)
        if (c != '_' && !(c == '+' && digits.empty())) digits += c;
      return token.kind == token_kind::integer ? integer(digits) : real(digits);
    default:
      break;
  }
  std::string text;
  append(text, token);
  return value(std::move(text));
}

RLCORE_INLINE value value_parser::integer(const std::string& digits) {
  std::int64_t x = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), x).ec != std::errc{})
    throw config_error("the integer " + digits + " does not fit into 64 bits");
  return x;
}

RLCORE_INLINE value value_parser::real(const std::string& digits) {
  double x = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), x);
  if (result.ec == std::errc::result_out_of_range) {  // like strtod: too large is infinite, too small is zero
    const std::size_t e = digits.find_first_of("eE");
    const bool tiny = e != digits.npos && digits[e + 1] == '-';
    x = tiny ? 0 : HUGE_VAL;
    if (digits.front() == '-') x = -x;
  }
  return x;
}

RLCORE_INLINE std::string value_parser::unquote(std::string_view quoted) {
  const char quote = quoted.front();
  std::string text;
  for (std::size_t i = 1; i + 1 < quoted.size();) {
    std::size_t end = i;
    while (end < quoted.size() && quoted[end] == '\\') ++end;
    if (end > i && quoted[end] == quote) {
      text.append((end - i) / 2, '\\');
      if ((end - i) % 2 == 1) text += quote, ++end;
    } else {
      if (end == i) ++end;
      text += quoted.substr(i, end - i);
    }
    i = end;
  }
  return text;
}

RLCORE_INLINE bool valid_key(std::string_view key) {
  if (const std::size_t at = key.find('@'); at != key.npos)
    return key.find('@', at + 1) == key.npos && key.find('/', at) == key.npos && valid_key(key.substr(0, at)) &&
           valid_key(key.substr(at + 1));
  if (key.empty()) return true;
  const bool group = key.find('/') != key.npos;
  const char separator = group ? '/' : '.';
  bool alone = true;
  for (std::size_t first = 0; first <= key.size();) {
    const std::size_t end = std::min(key.find(separator, first), key.size());
    const std::string_view part = key.substr(first, end - first);
    if (part.empty()) return false;
    alone = alone && end == key.size();
    const bool number = override_lexer::digit(part.front());
    if (number && (group || alone || (part.front() == '0' && part.size() > 1))) return false;
    if (!number && part.front() != '_' && !override_lexer::letter(part.front()) && (part.front() != '$' || group))
      return false;
    for (const char c : part) {
      if (number
              ? !override_lexer::digit(c) && c != '_'
              : !override_lexer::letter(c) && !override_lexer::digit(c) && c != '_' && c != '-' && (c != '$' || group))
        return false;
    }
    first = end + 1;
  }
  return true;
}

RLCORE_INLINE override_setting parse_override(std::string_view text) {
  override_setting result;
  std::string_view rest = text;
  const auto fail = [&](const std::string& why) -> config_error {
    return config_error("'" + std::string(text) + "' is not a setting: " + why);
  };
  if (rest.empty()) throw fail("it is empty; expected key=value");
  if (rest.front() == '~') {
    result.kind = override_kind::remove;
    rest.remove_prefix(1);
  } else if (rest.front() == '+') {
    const bool twice = rest.size() > 1 && rest[1] == '+';
    result.kind = twice ? override_kind::force_add : override_kind::add;
    rest.remove_prefix(twice ? 2 : 1);
  }
  const std::size_t equal = rest.find('=');
  result.key = std::string(rest.substr(0, equal));
  if (!valid_key(result.key))
    throw fail("'" + result.key + "' is no key" +
               (result.key.find(' ') != result.key.npos ? " (no blank may stand in or around it)" : ""));
  if (std::count(result.key.begin(), result.key.end(), '.') >= static_cast<std::ptrdiff_t>(nesting_limit))
    throw config_error("a key of more than " + std::to_string(nesting_limit) + " parts: '" + result.key.substr(0, 60) +
                       "...'");
  if (equal == rest.npos) {
    if (result.kind != override_kind::remove) throw fail("it has no '='; expected key=value");
    result.has_value = false;
    return result;
  }
  try {
    result.item = parse_value(rest.substr(equal + 1));
  } catch (const config_error& e) {
    throw fail(e.what());
  }
  return result;
}

}  // namespace train
RLCORE_END
#endif
