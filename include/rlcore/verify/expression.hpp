// Expressions in LaTeX: text, parser, equality.
#pragma once

#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>

#include "rlcore/core/random.hpp"
#include "rlcore/verify/python_text.hpp"

RLCORE_BEGIN
namespace verify::detail {

/// Knows fractions, roots, text commands, spaces and common symbols; fails on anything else.
class latex_reader {
 public:
  explicit latex_reader(std::string_view text) : text_(text) {}
  /// Nothing for unknown commands, and for dashes or quotes that LaTeX would join.
  std::optional<std::string> run() {
    std::string out;
    if (!read(out, false, 0) || at_ != text_.size()) return std::nullopt;
    return out;
  }

 private:
  static constexpr int deepest = 40;

  static constexpr bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  /// Up to the end, or to the brace that closes a group.
  bool read(std::string& out, bool group, int depth);
  /// A group, a command or one character.
  bool argument(std::string& out, int depth);
  bool command(std::string& out, int depth);

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace verify::detail

namespace verify {

/// Result of compare_formulas().
enum class sameness { equal, different, undecided };

namespace detail {

/// Evaluates numbers, single letters (variables), pi, + - * / ^ **, factorials of numbers, sqrt(), ln(), parentheses
/// and products without a sign, in principal branches as computer algebra has them.
class formula {
 public:
  using number = std::complex<double>;

  /// The value with variables set by `point`; nothing if the text is not such a formula.
  static std::optional<number> value(std::string_view text, std::uint32_t point);

 private:
  formula(std::string_view text, std::uint32_t point) : text_(text), point_(point) {}

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view token);
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  std::optional<number> sum();
  static bool starts_factor(char c) {
    return is_digit(c) || c == '.' || c == '(' || (c >= 'a' && c <= 'z') || static_cast<unsigned char>(c) >= 0x80;
  }
  std::optional<number> product();
  std::optional<number> signed_power();
  static std::optional<number> factorial(number x);
  static number power(number base, number exponent);
  std::optional<number> atom();
  std::optional<number> literal();
  /// pi, or a single letter.
  std::optional<number> name();
  bool is_greek(std::size_t i) const {
    const auto c = static_cast<unsigned char>(text_[i]);
    return (c == 0xCE || c == 0xCF) && i + 1 < text_.size();
  }
  number variable(std::uint32_t letter) const {
    constexpr random_key key{0x6d617468};
    return {0.3 + 2.5 * key.uniform(letter, point_, 0), 0.2 + 1.5 * key.uniform(letter, point_, 1)};
  }

  std::string_view text_;
  std::uint32_t point_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace detail

/// Compares values at 6 points: equal when all agree to 1e-12 of their size, different when one differs by 1e-8,
/// undecided in between and if a text is no formula. With decimal fractions, computer algebra uses rounded numbers:
/// then only rational formulas of the same value are equal, and close values are undecided. Texts beyond
/// 1000 bytes are undecided.
sameness compare_formulas(std::string_view a, std::string_view b);

}  // namespace verify
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_VERIFY)
RLCORE_BEGIN
namespace verify::detail {

RLCORE_INLINE bool latex_reader::read(std::string& out, bool group, int depth) {
  if (depth > deepest) return false;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '}') {
      if (group) return true;
      ++at_;  // an unmatched one is dropped
      continue;
    }
    if (c == '{') {
      ++at_;
      if (!read(out, true, depth + 1)) return false;
      if (at_ < text_.size()) ++at_;  // a group may be left open
    } else if (c == '\\') {
      if (!command(out, depth)) return false;
    } else if (c == '\n' || c == '&' || c == '#' || c == '%' || c == '~' || c == '`' || c == '\'' ||
               (c == '-' && at_ + 1 < text_.size() && text_[at_ + 1] == '-')) {
      return false;
    } else {
      out += c;
      ++at_;
    }
  }
  return true;
}

RLCORE_INLINE bool latex_reader::argument(std::string& out, int depth) {
  skip_spaces();
  if (at_ == text_.size() || text_[at_] == '}') return false;
  if (text_[at_] == '\\') return command(out, depth + 1);
  if (text_[at_] != '{') {
    const std::size_t bytes = code_point_bytes(text_, at_);
    out += text_.substr(at_, bytes);
    at_ += bytes;
    return true;
  }
  ++at_;
  if (!read(out, true, depth + 1)) return false;
  if (at_ < text_.size()) ++at_;
  return true;
}

RLCORE_INLINE bool latex_reader::command(std::string& out, int depth) {
  struct symbol {
    std::string_view name, text;
  };
  static constexpr std::array<symbol, 48> symbols{
      {{"pi", "π"},          {"cdot", "·"},  {"times", "×"}, {"infty", "∞"}, {"cup", "∪"},   {"cap", "∩"},
       {"alpha", "α"},       {"beta", "β"},  {"gamma", "γ"}, {"delta", "δ"}, {"theta", "θ"}, {"lambda", "λ"},
       {"mu", "μ"},          {"phi", "ϕ"},   {"omega", "ω"}, {"sigma", "σ"}, {"le", "≤"},    {"leq", "≤"},
       {"ge", "≥"},          {"geq", "≥"},   {"ne", "≠"},    {"neq", "≠"},   {"pm", "±"},    {"circ", "∘"},
       {"angle", "∠"},       {"in", "∈"},    {"div", "÷"},   {"ldots", "…"}, {"sin", "sin"}, {"cos", "cos"},
       {"tan", "tan"},       {"log", "log"}, {"ln", "ln"},   {"exp", "exp"}, {"left", ""},   {"right", ""},
       {"displaystyle", ""}, {"quad", "  "}, {",", " "},     {"!", ""},      {";", " "},     {":", " "},
       {" ", " "},           {"{", "{"},     {"}", "}"},     {"$", "$"},     {"%", "%"},     {"mid", "|"}}};
  static constexpr std::array<std::string_view, 11> contents{
      "text", "mathrm", "textbf", "mbox", "mathbf", "textit", "mathit", "boxed", "overline", "textrm", "mathsf"};
  ++at_;
  if (depth > deepest || at_ == text_.size()) return false;
  std::size_t end = at_;
  while (end < text_.size() && is_letter(text_[end])) ++end;
  if (end == at_) ++end;
  const std::string_view name = text_.substr(at_, end - at_);
  at_ = end;
  const bool word = is_letter(name[0]);
  if (name == "frac") {
    if (!argument(out, depth)) return false;
    out += '/';
    return argument(out, depth);
  }
  if (name == "sqrt") {
    skip_spaces();
    if (at_ < text_.size() && text_[at_] == '[') {  // the degree is not kept
      at_ = text_.find(']', at_);
      if (at_ == std::string_view::npos) return at_ = text_.size(), false;
      ++at_;
    }
    out += "√(";
    if (!argument(out, depth)) return false;
    out += ')';
    return true;
  }
  for (const std::string_view known : contents)
    if (name == known) return argument(out, depth);
  for (const symbol& s : symbols)
    if (name == s.name) {
      out += s.text;
      if (word) skip_spaces();
      return true;
    }
  return false;
}

}  // namespace verify::detail

namespace verify::detail {

RLCORE_INLINE auto formula::value(std::string_view text, std::uint32_t point) -> std::optional<number> {
  formula f{text, point};
  const std::optional<number> result = f.sum();
  f.skip();
  return result && f.at_ == text.size() ? result : std::nullopt;
}

RLCORE_INLINE bool formula::take(std::string_view token) {
  skip();
  if (!text_.substr(at_).starts_with(token)) return false;
  at_ += token.size();
  return true;
}

RLCORE_INLINE auto formula::sum() -> std::optional<number> {
  if (++depth_ > 60) return std::nullopt;
  std::optional<number> left = product();
  while (left) {
    const bool plus = peek() == '+';
    if (!plus && peek() != '-') break;
    ++at_;
    const std::optional<number> right = product();
    if (!right) return std::nullopt;
    left = plus ? *left + *right : *left - *right;
  }
  --depth_;
  return left;
}

RLCORE_INLINE auto formula::product() -> std::optional<number> {
  std::optional<number> left = signed_power();
  while (left) {
    const char c = peek();
    const bool times = c == '*', over = c == '/';
    if (!times && !over && !starts_factor(c)) break;
    if (times || over) ++at_;
    const std::optional<number> right = signed_power();
    if (!right) return std::nullopt;
    left = over ? *left / *right : *left * *right;
  }
  return left;
}

RLCORE_INLINE auto formula::signed_power() -> std::optional<number> {
  if (++depth_ > 60) return std::nullopt;
  std::optional<number> result;
  if (take("-")) {
    result = signed_power();
    if (result) result = -*result;
  } else if (take("+")) {
    result = signed_power();
  } else {
    result = atom();
    while (result && take("!")) result = factorial(*result);
    if (result && (take("**") || take("^"))) {
      const std::optional<number> exponent = signed_power();
      result = exponent ? std::optional(power(*result, *exponent)) : std::nullopt;
    }
  }
  --depth_;
  return result;
}

RLCORE_INLINE auto formula::factorial(number x) -> std::optional<number> {
  if (x.imag() != 0 || x.real() < 0 || x.real() > 20 || x.real() != std::floor(x.real())) return std::nullopt;
  double product = 1;
  for (int k = 2; k <= static_cast<int>(x.real()); ++k) product *= k;  // exact: 20! = 2^18 times a number of 44 bits
  return number(product);
}

RLCORE_INLINE auto formula::power(number base, number exponent) -> number {
  const double n = exponent.real();
  if (exponent.imag() == 0 && n == std::floor(n) && std::abs(n) <= 64) {  // exact if possible
    number result = 1;
    for (int i = 0; i < static_cast<int>(std::abs(n)); ++i) result *= base;
    return n < 0 ? 1.0 / result : result;
  }
  if (exponent == number(0.5)) return std::sqrt(base);
  return std::pow(base, exponent);
}

RLCORE_INLINE auto formula::atom() -> std::optional<number> {
  const char c = peek();
  if (take("(")) {
    const std::optional<number> inside = sum();
    return inside && take(")") ? inside : std::nullopt;
  }
  if (is_digit(c) || c == '.') return literal();
  for (const std::string_view function : {"sqrt", "ln"})
    if (text_.substr(at_).starts_with(function) && text_.substr(at_ + function.size()).starts_with("(")) {
      at_ += function.size() + 1;
      const std::optional<number> x = sum();
      if (!x || !take(")")) return std::nullopt;
      return function == "sqrt" ? std::sqrt(*x) : std::log(*x);
    }
  return name();
}

RLCORE_INLINE auto formula::literal() -> std::optional<number> {
  const std::size_t begin = at_;
  while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  if (at_ < text_.size() && text_[at_] == '.') {
    ++at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  }
  const std::string digits(text_.substr(begin, at_ - begin));
  if (digits == "." || digits.size() > 300 || (digits.size() > 1 && digits[0] == '0' && is_digit(digits[1])))
    return std::nullopt;
  return number(std::strtod(digits.c_str(), nullptr));
}

RLCORE_INLINE auto formula::name() -> std::optional<number> {
  std::size_t end = at_;
  while (end < text_.size() && ((text_[end] >= 'a' && text_[end] <= 'z') || is_greek(end)))
    end += static_cast<unsigned char>(text_[end]) >= 0x80 ? 2u : 1u;
  const std::string_view word = text_.substr(at_, end - at_);
  if (word.empty()) return std::nullopt;
  for (const std::string_view other : {"re", "im", "li", "ff", "rf", "oo"})
    if (word == other) return std::nullopt;  // functions and constants of computer algebra
  if (word.find("sqrt") != std::string_view::npos ||
      (end < text_.size() && (is_digit(text_[end]) || text_[end] == '_')))
    return std::nullopt;
  if (word == "pi") return at_ = end, number(std::numbers::pi);
  // One letter; the following letters are further factors, so that a power applies to the last one.
  const std::size_t bytes = static_cast<unsigned char>(word[0]) >= 0x80 ? 2 : 1;
  std::uint32_t letter = 0;
  for (const char c : word.substr(0, bytes)) letter = letter << 8 | static_cast<unsigned char>(c);
  at_ += bytes;
  return variable(letter);
}

}  // namespace verify::detail

namespace verify {

RLCORE_INLINE sameness compare_formulas(std::string_view a, std::string_view b) {
  if (a.size() > 1000 || b.size() > 1000) return sameness::undecided;
  const auto has = [&](std::string_view part) { return detail::contains(a, part) || detail::contains(b, part); };
  const bool decimal = has("."), both = detail::contains(a, ".") && detail::contains(b, ".");
  const bool irrational = has("sqrt") || has("ln") || has("pi") || (both && has("/"));
  bool close = true;
  for (std::uint32_t point = 0; point < 6; ++point) {
    const auto x = detail::formula::value(a, point), y = detail::formula::value(b, point);
    if (!x || !y) return sameness::undecided;
    const double distance = std::abs(*x - *y), size = std::max({1e-300, std::abs(*x), std::abs(*y)});
    if (!std::isfinite(distance) || distance > 1e-8 * size) return sameness::different;
    close = close && (decimal ? distance == 0 && !irrational : distance <= 1e-12 * size);
  }
  return close ? sameness::equal : sameness::undecided;
}

}  // namespace verify
RLCORE_END
#endif
