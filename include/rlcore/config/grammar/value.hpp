// Values of options, and the tokens of an override.
#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace train {

/// The tokens of Hydra's grammar of overrides. `other` is a character allowed in unquoted text, `escaped` are
/// characters with a backslash before each.
enum class token_kind {
  open_paren,
  comma,
  close_paren,
  open_bracket,
  close_bracket,
  open_brace,
  close_brace,
  colon,
  equal,
  real,
  integer,
  boolean,
  null,
  other,
  name,
  escaped,
  blank,
  quoted,
  interpolation
};

/// One token; `text` is its part of the lexer's text.
struct override_token {
  token_kind kind;
  std::string_view text;
};

/// Cuts the text after the `=` of an override into tokens. Each rule returns how many characters it takes, 0 for none.
class override_lexer {
 public:
  /// `text` must outlive the lexer and its tokens.
  explicit override_lexer(std::string_view text) : rest_(text) {}

  /// Throws config_error with the offending character.
  std::vector<override_token> run();

  /// Is it a letter of ASCII?
  static bool letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
  /// Is it a digit of ASCII?
  static bool digit(char c) noexcept { return c >= '0' && c <= '9'; }

 private:
  char at(std::size_t i) const noexcept { return i < rest_.size() ? rest_[i] : '\0'; }
  void offer(std::size_t length, token_kind kind) {
    if (length > length_) length_ = length, kind_ = kind;
  }
  std::size_t blanks(std::size_t from) const {
    std::size_t i = from;
    while (at(i) == ' ' || at(i) == '\t') ++i;
    return i - from;
  }
  void mark(char c, token_kind kind, bool blanks_before, bool blanks_after);
  std::size_t sign(std::size_t i) const { return at(i) == '+' || at(i) == '-'; }
  /// End of digits with single underscores between them, from `i`; `i` itself if there is no digit.
  std::size_t digits(std::size_t i) const {
    if (!digit(at(i))) return i;
    for (++i; digit(at(i)) || (at(i) == '_' && digit(at(i + 1)));) ++i;
    return i;
  }
  /// End of an unsigned integer (no leading zero) from `i`, or 0.
  std::size_t integer(std::size_t i) const { return at(i) == '0' ? i + 1 : digit(at(i)) ? digits(i) : 0; }
  std::size_t real() const;
  /// Length of `w` if it stands at `from` in any case of letters, else 0.
  std::size_t word(std::string_view w, std::size_t from = 0) const {
    for (std::size_t i = 0; i < w.size(); ++i)
      if ((at(from + i) | 0x20) != w[i]) return 0;
    return w.size();
  }
  std::size_t name() const;
  std::size_t escapes() const;
  /// A quote closes at the first equal quote with an even number of backslashes before it.
  std::size_t quoted() const;
  std::size_t interpolation() const {
    if (at(0) != '$' || at(1) != '{') return 0;
    const std::size_t end = rest_.find('}', 2);
    return end == rest_.npos || end == 2 ? 0 : end + 1;
  }

  std::string_view rest_;
  std::size_t length_ = 0;
  token_kind kind_ = token_kind::other;
};

/// Shortest decimal that reads back as `x`, in the spelling of Python's repr: 1.0, 0.001, 1e-06, 1e+16, inf, nan.
std::string real_text(double x);

struct member;

/// One node of a configuration. Maps keep the order of insertion.
struct value {
  using list = std::vector<value>;
  using map = std::vector<member>;
  std::variant<std::monostate, bool, std::int64_t, double, std::string, list, map> held;

  value();
  value(bool x);              ///< a bool
  value(std::int64_t x);      ///< an integer
  value(int x);               ///< an integer
  value(double x);            ///< a real
  value(std::string x);       ///< a text
  value(std::string_view x);  ///< a text
  value(const char* x);       ///< a text
  value(list x);              ///< a list
  value(map x);               ///< a map

  template <class T>
  const T* as() const noexcept {
    return std::get_if<T>(&held);
  }
  template <class T>
  T* as() noexcept {
    return std::get_if<T>(&held);
  }
  bool is_null() const noexcept { return held.index() == 0; }
  bool is_map() const noexcept { return as<map>() != nullptr; }
  bool is_list() const noexcept { return as<list>() != nullptr; }
  bool is_scalar() const noexcept { return !is_map() && !is_list(); }
  /// The member called `name`, or nullptr if it does not exist or this is not a map.
  const value* find(std::string_view name) const noexcept;
  /// The same, to be changed.
  value* find(std::string_view name) noexcept;
  friend bool operator==(const value& a, const value& b);
};

/// One entry of a map.
struct member {
  std::string name;
  value item;
  friend bool operator==(const member& a, const member& b) { return a.name == b.name && a.item == b.item; }
};

// Defined here because a map needs the complete member.
inline value::value() = default;
inline value::value(bool x) : held(x) {}
inline value::value(std::int64_t x) : held(x) {}
inline value::value(int x) : held(std::int64_t{x}) {}
inline value::value(double x) : held(x) {}
inline value::value(std::string x) : held(std::move(x)) {}
inline value::value(std::string_view x) : held(std::string(x)) {}
inline value::value(const char* x) : held(std::string(x)) {}
inline value::value(list x) : held(std::move(x)) {}
inline value::value(map x) : held(std::move(x)) {}
/// True for values of one kind with the same content: 1 is not 1.0, and maps have the same order.
inline bool operator==(const value& a, const value& b) { return a.held == b.held; }

inline value* value::find(std::string_view name) noexcept {
  return const_cast<value*>(static_cast<const value*>(this)->find(name));
}

/// A scalar as Python's str() prints it: None, True, 3, 1e-06, text. Empty for a list or a map.
std::string scalar_text(const value& v);

/// The kind of the value in words, for messages.
inline std::string_view kind_of(const value& v) noexcept {
  constexpr std::string_view names[] = {"null", "a bool", "an integer", "a number", "a text", "a list", "a map"};
  return names[v.held.index()];
}

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::vector<override_token> override_lexer::run() {
  std::vector<override_token> tokens;
  while (!rest_.empty()) {
    length_ = 0;
    // The order decides between rules that take equally many characters.
    mark('(', token_kind::open_paren, true, true);
    mark(',', token_kind::comma, true, true);
    mark(')', token_kind::close_paren, true, false);
    mark('[', token_kind::open_bracket, false, true);
    mark(']', token_kind::close_bracket, true, false);
    mark('{', token_kind::open_brace, false, true);
    mark('}', token_kind::close_brace, true, false);
    mark(':', token_kind::colon, true, true);
    mark('=', token_kind::equal, true, true);
    offer(real(), token_kind::real);
    offer(integer(sign(0)), token_kind::integer);
    offer(word("true") + word("false"), token_kind::boolean);
    offer(word("null"), token_kind::null);
    offer(std::string_view("/-\\+.$%*@?|").find(rest_.front()) != rest_.npos, token_kind::other);
    offer(name(), token_kind::name);
    offer(escapes(), token_kind::escaped);
    offer(blanks(0), token_kind::blank);
    offer(quoted(), token_kind::quoted);
    offer(interpolation(), token_kind::interpolation);
    if (length_ == 0) {
      std::size_t n = 1;  // show a multi-byte character whole
      while (n < rest_.size() && (static_cast<unsigned char>(rest_[n]) & 0xC0u) == 0x80u) ++n;
      throw config_error("'" + std::string(rest_.substr(0, n)) + "' cannot stand outside quotes" +
                         (rest_.front() == '~' ? "; write $HOME" : ""));
    }
    tokens.push_back({kind_, rest_.substr(0, length_)});
    rest_.remove_prefix(length_);
  }
  return tokens;
}

RLCORE_INLINE void override_lexer::mark(char c, token_kind kind, bool blanks_before, bool blanks_after) {
  std::size_t i = blanks_before ? blanks(0) : 0;
  if (at(i) != c) return;
  ++i;
  offer(i + (blanks_after ? blanks(i) : 0), kind);
}

RLCORE_INLINE std::size_t override_lexer::real() const {
  const std::size_t start = sign(0), whole = integer(start);
  std::size_t best = 0, point = 0;
  if (whole != 0 && at(whole) == '.') best = point = whole + 1;
  const std::size_t dot = whole != 0 ? whole : start;
  if (at(dot) == '.' && digit(at(dot + 1))) best = point = digits(dot + 1);
  for (const std::size_t mantissa : {whole, point}) {
    if (mantissa == 0 || (at(mantissa) != 'e' && at(mantissa) != 'E')) continue;
    const std::size_t exponent = mantissa + 1 + sign(mantissa + 1), end = digits(exponent);
    if (end > exponent && end > best) best = end;
  }
  for (const std::string_view special : {"inf", "nan"})
    if (const std::size_t n = word(special, start); n != 0) best = start + n;
  return best;
}

RLCORE_INLINE std::size_t override_lexer::name() const {
  if (!letter(at(0)) && at(0) != '_') return 0;
  std::size_t i = 1;
  while (letter(at(i)) || digit(at(i)) || at(i) == '_' || at(i) == '-') ++i;
  return i;
}

RLCORE_INLINE std::size_t override_lexer::escapes() const {
  std::size_t i = 0;
  while (at(i) == '\\' && i + 1 < rest_.size() && std::string_view("\\()[]{}:=, \t").find(at(i + 1)) != rest_.npos)
    i += 2;
  return i;
}

RLCORE_INLINE std::size_t override_lexer::quoted() const {
  if (at(0) != '\'' && at(0) != '"') return 0;
  std::size_t backslashes = 0;
  for (std::size_t i = 1; i < rest_.size(); ++i) {
    if (rest_[i] == rest_.front() && backslashes % 2 == 0) return i + 1;
    backslashes = rest_[i] == '\\' ? backslashes + 1 : 0;
  }
  return 0;
}

RLCORE_INLINE std::string real_text(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::scientific).ptr;
  std::string_view written(buffer, static_cast<std::size_t>(end - buffer));
  std::string sign;
  if (written.front() == '-') sign = "-", written.remove_prefix(1);
  const std::size_t mark = written.find('e');
  int exponent = 0;
  std::from_chars(written.data() + mark + (written[mark + 1] == '+' ? 2 : 1), written.data() + written.size(),
                  exponent);
  std::string digits(1, written.front());
  if (mark > 2) digits += written.substr(2, mark - 2);
  if (exponent < -4 || exponent >= 16) {
    const std::string power = std::to_string(exponent < 0 ? -exponent : exponent);
    return sign + digits.substr(0, 1) + (digits.size() > 1 ? "." + digits.substr(1) : "") +
           (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() < whole) digits.append(whole - digits.size(), '0');
  return sign + digits.substr(0, whole) + "." + (digits.size() > whole ? digits.substr(whole) : "0");
}

RLCORE_INLINE const value* value::find(std::string_view name) const noexcept {
  if (const map* members = as<map>())
    for (const member& m : *members)
      if (m.name == name) return &m.item;
  return nullptr;
}

RLCORE_INLINE std::string scalar_text(const value& v) {
  if (v.is_null()) return "None";
  if (const bool* x = v.as<bool>()) return *x ? "True" : "False";
  if (const std::int64_t* x = v.as<std::int64_t>()) return std::to_string(*x);
  if (const double* x = v.as<double>()) return real_text(*x);
  if (const std::string* x = v.as<std::string>()) return *x;
  return {};
}

}  // namespace train
RLCORE_END
#endif
