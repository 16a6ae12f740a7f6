// Math answer grading of PRM800K (Lightman et al., "Let's Verify Step by Step", 2023).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/verify/expression.hpp"
#include "rlcore/verify/latex_text.hpp"
#include "rlcore/verify/math.hpp"

RLCORE_BEGIN
namespace verify {

/// The differences between verl's prime_math and mathruler, which grade alike otherwise.
struct grade_settings {
  bool liters = true;  ///< "liter" is a unit (in verl's prime_math, not in mathruler)
  bool bare = false;   ///< spaces, braces and percent signs are dropped at the end (mathruler)
};

namespace detail {

/// Python's float(text); empty if that raises ValueError.
std::optional<double> python_float(std::string_view text);
inline bool is_near_integer(std::optional<double> x) {
  return x && std::isfinite(*x) && std::abs(*x - std::nearbyint(*x)) <= 1e-7;
}
inline std::string integer_text(double x) {
  std::array<char, 400> text;
  std::snprintf(text.data(), text.size(), "%.0f", x == 0 ? 0.0 : x);
  return text.data();
}

/// The text inside \text{...} if that is the whole answer.
std::string_view whole_text(std::string_view s);

/// "1,234,567" -> "1234567": a comma between a digit and three that are not followed by a fourth.
std::string without_thousands_commas(std::string_view s);

/// unit, es, s, blanks and a power of digits.
void remove_unit(std::string& s, std::string_view unit);

/// `before` followed by any number of blanks, and perhaps `after`, replaced by `to`.
void replace_with_blanks(std::string& s, std::string_view before, std::string_view after, std::string_view to);

struct normal_answer {
  std::string text;
  bool complete = true;  ///< false: it has LaTeX that latex_reader does not know
};

normal_answer normalize_grade(std::string_view answer, const grade_settings& settings);

/// -?digits, perhaps one more character, "/", digits that are not all 0, perhaps one more character.
bool is_fraction(std::string_view s);
inline bool is_integer_text(std::string_view s) { return is_near_integer(python_float(without_thousands_commas(s))); }

std::vector<std::string> tuple_parts(std::string_view text);

/// True if the original would pass the difference to computer algebra.
bool allows_formula(std::string text);

}  // namespace detail

/// Two answers are equal if they are the same string after either of two normalisations. Otherwise the parts of tuples
/// are compared: fractions of the same form, or formulas of equal value; an integer equals only an integer. The
/// original uses computer algebra; here compare_formulas() decides. The time is linear in the texts' length except for
/// formulas, which are short.
sameness grade_answer(std::string_view response, std::string_view truth, const grade_settings& settings = {});

}  // namespace verify
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_VERIFY)
RLCORE_BEGIN
namespace verify::detail {

RLCORE_INLINE std::optional<double> python_float(std::string_view text) {
  const std::string s(strip(text));
  const std::size_t sign = !s.empty() && (s[0] == '-' || s[0] == '+') ? 1 : 0;
  const std::string word = lower(std::string_view(s).substr(sign));
  if (word == "inf" || word == "infinity") return s[0] == '-' ? -INFINITY : INFINITY;
  if (word == "nan") return NAN;
  std::string digits;
  for (std::size_t i = 0; i < s.size(); ++i) {  // single underscores between digits
    if (s[i] == '_' && i > 0 && i + 1 < s.size() && is_digit(s[i - 1]) && is_digit(s[i + 1])) continue;
    digits += s[i];
  }
  if (digits.empty() || digits.find_first_not_of("0123456789.eE+-") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double x = std::strtod(digits.c_str(), &end);
  return end == digits.c_str() + digits.size() ? std::optional(x) : std::nullopt;
}

RLCORE_INLINE std::string_view whole_text(std::string_view s) {
  constexpr std::string_view open = "\\text{";
  if (!s.starts_with(open) || !s.ends_with('}') || s.size() < open.size() + 2) return s;
  const std::string_view inside = s.substr(open.size(), s.size() - open.size() - 1);
  return contains(inside, "\n") ? s : inside;
}

RLCORE_INLINE std::string without_thousands_commas(std::string_view s) {
  std::string out;
  for (std::size_t i = 0; i < s.size(); ++i) {
    const auto digit = [&](std::size_t at) { return at < s.size() && is_digit(s[at]); };
    if (s[i] == ',' && i > 0 && digit(i - 1) && digit(i + 1) && digit(i + 2) && digit(i + 3) && !digit(i + 4)) continue;
    // A comma before another such group: the group is followed by a comma, which ends it.
    out += s[i];
  }
  return out;
}

RLCORE_INLINE void remove_unit(std::string& s, std::string_view unit) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = s.find(unit); at != std::string::npos; at = s.find(unit, done)) {
    std::size_t end = at + unit.size();
    if (s.compare(end, 2, "es") == 0) end += 2;
    if (s.compare(end, 1, "s") == 0) end += 1;
    while (end < s.size() && s[end] == ' ') ++end;
    std::size_t power = end;
    if (power < s.size() && s[power] == '^')
      for (++power; power < s.size() && is_digit(s[power]);) ++power;
    if (power > end + 1) end = power;
    out.append(s, done, at - done);
    done = end;
  }
  s = out.append(s, done);
}

RLCORE_INLINE void replace_with_blanks(std::string& s, std::string_view before, std::string_view after,
                                       std::string_view to) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = s.find(before); at != std::string::npos;) {
    std::size_t end = at + before.size();
    while (end < s.size() && s[end] == ' ') ++end;
    if (std::string_view(s).substr(end).starts_with(after)) {
      out.append(s, done, at - done).append(to);
      done = end + after.size();
      at = s.find(before, done);
    } else {
      at = s.find(before, at + 1);
    }
  }
  s = out.append(s, done);
}

RLCORE_INLINE normal_answer normalize_grade(std::string_view answer, const grade_settings& settings) {
  std::string s(whole_text(answer));
  for (const auto& [from, to] : std::initializer_list<std::pair<const char*, const char*>>{{"\\%", "%"},
                                                                                           {"\\$", "$"},
                                                                                           {"$", ""},
                                                                                           {"%", ""},
                                                                                           {" or ", " , "},
                                                                                           {" and ", " , "},
                                                                                           {"million", "*10^6"},
                                                                                           {"billion", "*10^9"},
                                                                                           {"trillion", "*10^12"}})
    replace_all(s, from, to);
  for (const char* unit : {"degree", "cm", "centimeter", "meter", "mile", "second", "minute", "hour", "day", "week",
                           "month", "year", "foot", "feet", "inch", "yard"})
    remove_unit(s, unit);
  if (settings.liters) remove_unit(s, "liter");
  replace_with_blanks(s, "^", "\\circ", "");
  if (s.size() > 1 && s.front() == '{' && s.back() == '}') s = s.substr(1, s.size() - 2);
  replace_with_blanks(s, ",\\!", "", "");
  if (const auto x = python_float(s); is_near_integer(x)) s = integer_text(std::nearbyint(*x));
  bool complete = true;
  if (contains(s, "\\")) {
    std::string latex = s;
    replace_all(latex, "\\tfrac", "\\frac");
    replace_all(latex, "\\dfrac", "\\frac");
    replace_all(latex, "\\frac", " \\frac");
    latex_reader reader(latex);
    std::string text = reader.run();
    if (reader.outcome() == latex_outcome::converted) {
      for (const auto& [from, to] : std::initializer_list<std::pair<const char*, const char*>>{
               {"√", "sqrt"}, {"π", "pi"}, {"∞", "inf"}, {"∪", "U"}, {"·", "*"}, {"×", "*"}})
        replace_all(text, from, to);
      s = std::string(strip(text));
    }
    complete = reader.outcome() != latex_outcome::unknown;
  }
  replace_with_blanks(s, "-", "", "-");
  std::string mixed;  // 7 3/4 -> 7+3/4
  for (std::size_t i = 0; i < s.size(); ++i) {
    mixed += s[i];
    if (!is_digit(s[i])) continue;
    std::size_t next = i + 1;
    while (next < s.size() && s[next] == ' ') ++next;
    if (next == i + 1 || next == s.size() || !is_digit(s[next])) continue;
    mixed += '+';
    mixed += s[next];
    i = next;
  }
  s = mixed;
  if (settings.bare) std::erase_if(s, [](char c) { return c == ' ' || c == '{' || c == '}'; });
  s = lower_letters(s);
  if (is_near_integer(python_float(without_thousands_commas(s)))) {
    std::string digits = s;
    std::erase(digits, ',');
    s = integer_text(std::trunc(python_float(digits).value_or(0)));
  }
  return {s, complete};
}

RLCORE_INLINE bool is_fraction(std::string_view s) {
  std::size_t i = s.starts_with('-') ? 1 : 0;
  const std::size_t slash = s.find('/', i);
  if (slash == std::string_view::npos) return false;
  const std::string_view above = s.substr(i, slash - i);
  std::string_view below = s.substr(slash + 1);
  const auto all_digits = [](std::string_view t) { return !t.empty() && std::all_of(t.begin(), t.end(), is_digit); };
  const auto without_last = [](std::string_view t) {
    std::size_t last = t.size();
    while (last > 0 && (static_cast<unsigned char>(t[--last]) & 0xC0) == 0x80) {
    }
    return t.substr(0, last);
  };
  if (!all_digits(above) && !all_digits(without_last(above))) return false;
  if (!all_digits(below)) below = without_last(below);
  return all_digits(below) && below.find_first_not_of('0') != std::string_view::npos;
}

RLCORE_INLINE std::vector<std::string> tuple_parts(std::string_view text) {
  const std::string s = without_thousands_commas(text);
  constexpr std::string_view marks = "()[]";
  const std::string_view inside = s.size() > 2 ? std::string_view(s).substr(1, s.size() - 2) : std::string_view{};
  std::vector<std::string> parts;
  if (s.empty()) return parts;
  if (s.size() > 2 && contains(marks, s.substr(0, 1)) && contains(marks, s.substr(s.size() - 1)) &&
      inside.find_first_of(marks) == std::string_view::npos) {
    for (const std::string_view part : split(inside, ",")) parts.emplace_back(strip(part));
  } else {
    parts.push_back(s);
  }
  return parts;
}

RLCORE_INLINE bool allows_formula(std::string text) {
  if (contains(text, "^{") || contains(text, "^(")) return false;
  for (std::size_t at = text.find('^'); at != std::string::npos; at = text.find('^', at + 1)) {
    std::size_t end = at + 1;
    while (end < text.size() && is_digit(text[end])) ++end;
    if (end - at > 2 || (end - at > 1 && end < text.size() && text[end] == '^')) return false;
  }
  replace_all(text, "sqrt", "");
  replace_all(text, "frac", "");
  std::set<std::string> letters;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = code_point_bytes(text, at);
    if (letter_bytes(text, at) != 0) letters.insert(text.substr(at, bytes));
    at += bytes;
  }
  return letters.size() <= 2;
}

}  // namespace verify::detail

namespace verify {

RLCORE_INLINE sameness grade_answer(std::string_view response, std::string_view truth, const grade_settings& settings) {
  using namespace detail;
  const auto mathd = [&](std::string_view answer) {
    const std::string_view inside = strip(whole_text(strip(answer)));
    return normalize_math(inside, settings.bare).value_or(std::string(inside));
  };
  if (mathd(response) == mathd(truth)) return sameness::equal;
  const normal_answer a = normalize_grade(response, settings), b = normalize_grade(truth, settings);
  if (a.text == b.text) return sameness::equal;
  if (!a.complete || !b.complete) return sameness::undecided;
  if (a.text.empty()) return sameness::different;
  const std::vector<std::string> x = tuple_parts(a.text), y = tuple_parts(b.text);
  if (x.size() != y.size() || (y.size() > 1 && (a.text.front() != b.text.front() || a.text.back() != b.text.back())))
    return sameness::different;
  sameness result = sameness::equal;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sameness part = sameness::different;
    if (is_fraction(x[i]) && is_fraction(y[i]))
      part = x[i] == y[i] ? sameness::equal : sameness::different;
    else if (is_integer_text(x[i]) == is_integer_text(y[i]) && allows_formula("(" + y[i] + ")-(" + x[i] + ")"))
      part = compare_formulas(x[i], y[i]);
    if (part == sameness::different) return part;
    if (part == sameness::undecided) result = part;
  }
  return x.empty() ? sameness::different : result;
}

}  // namespace verify
RLCORE_END
#endif
