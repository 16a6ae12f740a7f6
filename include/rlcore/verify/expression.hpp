// Formulas as computer algebra reads them: value and equality.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/verify/python_text.hpp"
#include "rlcore/verify/quantity.hpp"

RLCORE_BEGIN
namespace verify {

/// Result of compare_formulas().
enum class sameness { equal, different, undecided };

namespace detail {

/// Reads numbers, variables, pi, + - * / ^ **, factorials, sqrt(), ln(), parentheses and products without a sign as
/// sympy's parser with implicit multiplication does, and computes in principal branches.
class formula {
 public:
  enum class grammar {
    sympy,
    python  ///< numbers, + - * / ** and parentheses alone
  };

  formula(std::string_view text, sample_point& point, grammar rules = grammar::sympy)
      : text_(text), point_(point), rules_(rules) {}

  /// Nothing if the text is no formula, or if is_beyond().
  std::optional<quantity> value();
  /// The text has functions that are not known here.
  bool is_beyond() const noexcept { return beyond_; }
  /// Whether numbers with a decimal point appear, and the digits of the longest.
  bool has_decimals() const noexcept { return decimal_digits_ > 0; }
  std::size_t decimal_digits() const noexcept { return decimal_digits_; }
  /// A root or power of a decimal was rounded: computer algebra sees no more where it came from.
  bool is_rounded() const noexcept { return rounded_; }
  /// The largest summand.
  double largest() const noexcept { return largest_; }

 private:
  using result = std::optional<quantity>;
  static constexpr int deepest = 60;

  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  result beyond() {
    beyond_ = true;
    return std::nullopt;
  }
  bool starts_factor() {
    const char c = peek();
    return rules_ == grammar::sympy &&
           (is_digit(c) || c == '.' || c == '(' || c == '_' || letter_bytes(text_, at_) != 0);
  }
  result sum();
  result product();
  result signed_power();
  /// With one or two exclamation marks.
  result factorial(const quantity& x, int marks);
  result power(const quantity& base, const quantity& exponent);
  result root(const quantity& x);
  result atom();
  result literal();
  result word();
  result call(std::string_view function);

  std::string_view text_;
  sample_point& point_;
  grammar rules_;
  std::size_t at_ = 0, word_end_ = 0;
  int depth_ = 0;
  bool beyond_ = false, rounded_ = false;
  std::size_t decimal_digits_ = 0;
  double largest_ = 0;
};

}  // namespace detail

/// Equal when the values agree at every point, different when one differs. Numbers with a decimal point are rounded
/// as computer algebra rounds them: 0.5 is 1/2 and 0.5 pi is pi/2, but no decimal is pi/2. Undecided are values that
/// are close, functions that are not known here, and texts beyond 1000 bytes.
sameness compare_formulas(std::string_view a, std::string_view b);

}  // namespace verify
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_VERIFY)
RLCORE_BEGIN
namespace verify::detail {

RLCORE_INLINE auto formula::value() -> result {
  const result all = sum();
  skip();
  if (all && at_ == text_.size()) return all;
  return std::nullopt;
}

RLCORE_INLINE auto formula::sum() -> result {
  if (++depth_ > deepest) return beyond();
  result left = product();
  while (left) {
    const bool minus = peek() == '-';
    if (!minus && peek() != '+') break;
    ++at_;
    const result right = product();
    if (!right) return std::nullopt;
    largest_ = std::max({largest_, std::abs(left->value), std::abs(right->value)});
    left = plus(*left, minus ? times(quantity::fraction(-1), *right) : *right);
  }
  --depth_;
  return left;
}

RLCORE_INLINE auto formula::product() -> result {
  result left = signed_power();
  while (left) {
    const char c = peek();
    if (c != '*' && c != '/' && !starts_factor()) break;
    if (c == '*' || c == '/') ++at_;
    if (c == '/' && at_ < text_.size() && text_[at_] == '/') return beyond();
    const result right = signed_power();
    if (!right) return std::nullopt;
    left = c == '/' ? over(*left, *right) : times(*left, *right);
  }
  return left;
}

RLCORE_INLINE auto formula::signed_power() -> result {
  if (++depth_ > deepest) return beyond();
  result x;
  const char sign = peek();
  if (sign == '-' || sign == '+') {
    ++at_;
    x = signed_power();
    if (x && sign == '-') x = times(quantity::fraction(-1), *x);
  } else {
    x = atom();
    int marks = 0;
    while (x && rules_ == grammar::sympy && take("!")) ++marks;
    if (x && marks > 0) x = factorial(*x, marks);
    if (x && (take("**") || (rules_ == grammar::sympy && take("^")))) {
      const result exponent = signed_power();
      x = exponent ? power(*x, *exponent) : std::nullopt;
    }
  }
  --depth_;
  return x;
}

/// The gamma function of z + 1 by the series of Lanczos with g = 7, to 15 digits.
inline std::complex<double> gamma_of_next(std::complex<double> z) {
  constexpr double pi = std::numbers::pi;
  if (z.real() < -0.5) return pi / (std::sin(pi * (z + 1.0)) * gamma_of_next(-z - 1.0));
  constexpr std::array<double, 8> terms{676.5203681218851,     -1259.1392167224028,  771.32342877765313,
                                        -176.61502916214059,   12.507343278686905,   -0.13857109526572012,
                                        9.9843695780195716e-6, 1.5056327351493116e-7};
  std::complex<double> series = 0.99999999999980993;
  for (std::size_t i = 0; i < terms.size(); ++i) series += terms[i] / (z + static_cast<double>(i + 1));
  const std::complex<double> t = z + 7.5;
  return std::sqrt(2 * pi) * std::pow(t, z + 0.5) * std::exp(-t) * series;
}

RLCORE_INLINE auto formula::factorial(const quantity& x, int marks) -> result {
  if (marks > 2) return std::nullopt;
  if (x.is_integer() ? x.above < 0 || x.above > 170 : marks > 1) return beyond();
  if (!x.is_integer()) {
    rounded_ = rounded_ || x.type == quantity::kind::decimal;
    return quantity::of(x.type == quantity::kind::decimal ? x.type : quantity::kind::term, gamma_of_next(x.value));
  }
  quantity product = quantity::fraction(1);
  for (std::int64_t k = x.above; k > 1; k -= marks) product = times(product, quantity::fraction(k));
  return product;
}

RLCORE_INLINE auto formula::root(const quantity& x) -> result {
  using kind = quantity::kind;
  const std::complex<double> value = std::sqrt(x.value);
  if (x.is_fraction() && x.below != 0 && x.above >= 0) {
    const auto whole = [](std::int64_t n) {
      return static_cast<std::int64_t>(std::sqrt(static_cast<double>(n)) + 0.5);
    };
    const std::int64_t above = whole(x.above), below = whole(x.below);
    if (above * above == x.above && below * below == x.below) return quantity::fraction(above, below);
  }
  if (x.type != kind::decimal) return joined(x, quantity::of(kind::term, 0), value);
  rounded_ = rounded_ || value * value != x.value;
  return quantity::of(kind::decimal, value);
}

RLCORE_INLINE auto formula::power(const quantity& base, const quantity& exponent) -> result {
  using kind = quantity::kind;
  if (exponent.is_integer() && std::abs(exponent.above) <= 64) {
    quantity product = quantity::fraction(1);
    for (std::int64_t i = std::abs(exponent.above); i > 0; --i) product = times(product, base);
    return exponent.above < 0 ? over(quantity::fraction(1), product) : product;
  }
  if (exponent.is_fraction() && exponent.above == 1 && exponent.below == 2) return root(base);
  const double n = exponent.value.real();
  const bool is_decimal = exponent.type == kind::decimal, is_real = base.value.imag() == 0 && base.value.real() >= 0;
  if (is_decimal && base.is_number()) {
    if (n == std::floor(n) && std::abs(n) <= 64) {
      const result whole = power(base, quantity::fraction(static_cast<std::int64_t>(n)));
      return quantity::of(kind::decimal, whole->value);
    }
    rounded_ = true;
    if (n == 0.5) return quantity::of(kind::decimal, std::sqrt(base.value));
    return quantity::of(kind::decimal, is_real ? std::pow(base.value.real(), n) : std::pow(base.value, n));
  }
  const bool number = base.type == kind::decimal && exponent.is_number();
  rounded_ = rounded_ || (base.type == kind::decimal && !exponent.is_integer());
  quantity q = quantity::of(exponent.is_integer() ? base.type
                            : number              ? kind::decimal
                                                  : kind::term,
                            std::pow(base.value, exponent.value));
  q.decimal_power = is_decimal ? n > 0 : base.decimal_power || exponent.decimal_power;
  return q;
}

RLCORE_INLINE auto formula::atom() -> result {
  const char c = peek();
  if (take("(")) {
    const result inside = sum();
    if (!inside) return std::nullopt;
    return take(")") ? inside : std::nullopt;
  }
  if (at_ >= word_end_ && (is_digit(c) || c == '.')) return literal();
  return rules_ == grammar::sympy && at_ < text_.size() ? word() : std::nullopt;
}

RLCORE_INLINE auto formula::literal() -> result {
  const std::size_t begin = at_;
  const auto digits = [&] {
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  };
  const auto has = [&](std::size_t at, std::string_view signs) {
    return at < text_.size() && contains(signs, text_.substr(at, 1));
  };
  digits();
  const std::size_t whole = at_;
  if (has(at_, ".")) ++at_, digits();
  if (at_ == begin + 1 && text_[begin] == '.') return std::nullopt;
  const bool point = at_ != whole;
  const std::size_t sign = at_ + (has(at_ + 1, "+-") ? 2 : 1);
  const bool exponent = has(at_, "e") && has(sign, "0123456789");
  if (exponent) at_ = sign, digits();
  const std::string_view text = text_.substr(begin, at_ - begin);
  if (text.size() > 300 || has(at_, point ? "_[" : "_")) return beyond();
  if (point || exponent) {
    std::string mantissa(text.substr(0, text.find('e')));
    std::erase(mantissa, '.');
    const std::size_t first = std::min(mantissa.find_first_not_of('0'), mantissa.size());
    const std::size_t last = mantissa.find_last_not_of('0');
    decimal_digits_ = std::max(decimal_digits_, last == std::string::npos ? 1 : last + 1 - first);
    return quantity::of(quantity::kind::decimal, std::strtod(std::string(text).c_str(), nullptr));
  }
  if (text.size() > 1 && text[0] == '0') {  // 05 is the product of 0 and 5
    at_ = std::min(text_.find_first_not_of('0', begin), whole);
    return rules_ == grammar::sympy || at_ == whole ? std::optional(quantity::fraction(0)) : std::nullopt;
  }
  if (text == "0" && has(at_, "xob") && has(at_ + 1, "0123456789abcdef")) return beyond();
  if (has(at_, "j")) {  // Python's imaginary numbers
    ++at_;
    return quantity::of(quantity::kind::term, {0, std::strtod(std::string(text).c_str(), nullptr)});
  }
  if (text.size() <= 15) return quantity::fraction(std::strtoll(std::string(text).c_str(), nullptr, 10));
  return quantity::of(quantity::kind::fraction, std::strtod(std::string(text).c_str(), nullptr));
}

RLCORE_INLINE auto formula::word() -> result {
  if (at_ < word_end_) {  // a word is split: each letter is a factor, so that a power belongs to the last one
    if (is_digit(text_[at_])) {
      const std::size_t begin = at_;
      while (at_ < word_end_ && is_digit(text_[at_])) ++at_;
      const std::string number(text_.substr(begin, at_ - begin));
      if (number.size() > 15 || (number.size() > 1 && number[0] == '0')) return beyond();
      return quantity::fraction(std::strtoll(number.c_str(), nullptr, 10));
    }
    const std::string_view letter = text_.substr(at_, code_point_bytes(text_, at_));
    at_ += letter.size();
    return quantity::of(quantity::kind::term, point_.value_of(letter));
  }
  std::size_t end = at_;
  for (std::size_t bytes; end < text_.size(); end += bytes) {
    bytes = is_digit(text_[end]) || text_[end] == '_' ? 1 : letter_bytes(text_, end);
    if (bytes == 0) break;
  }
  const std::string_view name = text_.substr(at_, end - at_);
  if (name.empty()) return std::nullopt;
  if (name == "pi") return at_ = end, quantity::of(quantity::kind::term, std::numbers::pi);
  if (name == "sqrt" || name == "ln") return at_ = end, call(name);
  const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (is_one_of({"oo", "zoo", "nan"})) return at_ = end, quantity::of(quantity::kind::term, NAN);
  if (is_one_of({"as", "if", "in", "is", "or"})) return std::nullopt;
  if (is_one_of({"re", "im", "li", "ff", "rf", "gff", "csc", "jn", "yn", "hn1", "hn2", "fft", "ntt", "fu", "eye", "all",
                 "id", "frac"}))
    return beyond();
  if (contains(name, "_") || is_one_of({"mu", "nu", "xi"}))
    return at_ = end, quantity::of(quantity::kind::term, point_.value_of(name));
  word_end_ = end;
  return word();
}

RLCORE_INLINE auto formula::call(std::string_view function) -> result {
  result x;
  if (peek() == '(') {
    x = atom();
  } else {  // without parentheses it takes the product that follows
    x = signed_power();
    while (x && (peek() == '*' || starts_factor())) {
      if (peek() == '*') ++at_;
      if (peek() == '(') return beyond();
      const result factor = signed_power();
      x = factor ? std::optional(times(*x, *factor)) : std::nullopt;
    }
  }
  if (!x) return std::nullopt;
  if (function == "sqrt") return root(*x);
  if (x->is_integer() && x->above == 1) return quantity::fraction(0);
  rounded_ = rounded_ || x->type == quantity::kind::decimal;
  return quantity::of(x->type == quantity::kind::decimal ? x->type : quantity::kind::term, std::log(x->value));
}

/// How far apart two values are that computer algebra holds for equal, where one has decimals; below 0 if none are.
inline double decimal_tolerance(const formula& f, const quantity& x, const formula& g, const quantity& y,
                                double scale) {
  if (x.decimal_power != y.decimal_power) return -1;
  const double number_left = plus(x.number(), times(quantity::fraction(-1), y.number())).value.real();
  if (number_left != 0 && std::abs(number_left) <= 1e-9 * scale) return -1;  // 0.1 + 0.2 is not quite 0.3
  const bool rounded = f.is_rounded() || g.is_rounded();
  if (x.is_number() && y.is_number()) return std::max(f.decimal_digits(), g.decimal_digits()) > 15 ? -1 : 0;
  if (x.is_number() == y.is_number()) return rounded ? 0 : 1e-11 * scale;
  const auto& [number, digits] = x.is_number() ? std::pair(x, f.decimal_digits()) : std::pair(y, g.decimal_digits());
  if (number.is_fraction()) return rounded ? -1 : 1e-11 * scale;
  return rounded || digits > 12 ? -1 : 1e-15 * std::abs(number.value);  // a decimal is no root
}

}  // namespace verify::detail

namespace verify {

RLCORE_INLINE sameness compare_formulas(std::string_view a, std::string_view b) {
  // Comparisons, sets and tuples cannot be subtracted, and other signs are no formula.
  constexpr std::string_view strange = ",=<>{};:|&@#?\"'";
  if (a.find_first_of(strange) != a.npos || b.find_first_of(strange) != b.npos) return sameness::different;
  if (a.size() > 1000 || b.size() > 1000) return sameness::undecided;
  bool close = true;
  detail::sample_point point;
  for (; point.index < detail::sample_point::count; ++point.index) {
    detail::formula f(a, point), g(b, point);
    const auto x = f.value(), y = g.value();
    if (!x || !y) return (!x && !f.is_beyond()) || (!y && !g.is_beyond()) ? sameness::different : sameness::undecided;
    const double distance = std::abs(x->value - y->value), size = std::max(std::abs(x->value), std::abs(y->value));
    const double scale = std::min(std::max({size, f.largest(), g.largest()}), 1e5 * size);
    if (!std::isfinite(distance) && point.has_large_values()) continue;
    if (!std::isfinite(distance)) return sameness::different;
    const bool decimals = f.has_decimals() || g.has_decimals();
    const double tolerance = decimals ? detail::decimal_tolerance(f, *x, g, *y, scale) : 1e-11 * scale;
    if (distance > (decimals ? tolerance : std::max(tolerance, 1e-8 * size))) return sameness::different;
    close = close && distance <= tolerance;
    if (point.variables.empty()) break;
  }
  return close ? sameness::equal : sameness::undecided;
}

}  // namespace verify
RLCORE_END
#endif
