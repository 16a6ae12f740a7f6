// PRIME math reward (Cui et al., "Process Reinforcement through Implicit Rewards", 2025), verl's version.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/verify/grade_answer.hpp"
#include "rlcore/verify/verdict.hpp"

RLCORE_BEGIN
namespace verify {

/// Settings of score_prime_math().
struct prime_math_settings {
  double score = 1, wrong_score = 0;
  std::size_t max_bytes = std::size_t{1} << 20;  ///< longer responses are not scored; 0: no limit
};

/// The extracted answer of a response: after the last "answer is" or a similar phrase, in the last box, up to the last
/// ". ", after the last "is", "=" or a similar mark. `matched` is whether any of the marks was found and the answer has
/// a digit.
struct prime_math_answer {
  std::string text;
  bool matched = false;
};

/// Extracts the answer of a response, see prime_math_answer.
prime_math_answer extract_prime_math(std::string_view response);

namespace detail {

/// A text, or the number that it was evaluated to.
struct numeric_text {
  std::string text;
  std::optional<double> number;
};

/// `x` as a float, without commas or {,}.
std::optional<double> digits_of(const numeric_text& x);

/// A text of numbers, + - * / ** and parentheses as Python calculates it: a number, or the text of a list or tuple of
/// numbers. Nothing if it is no such text.
std::optional<numeric_text> calculate(std::string_view text);

/// $5 and 5% lose their sign, 10_2 its base; with \pi as a number the text is calculated. Nothing if the original
/// raises an exception.
std::optional<numeric_text> prepare_numeric(const std::string& answer, double pi);

/// Interval(a, b), Interval.open(a, b), Interval.Lopen(a, b) and Interval.Ropen(a, b) in brackets; other text as it is.
std::string interval_in_brackets(const std::string& text);

inline bool is_close(double a, double b) {
  return a == b ||
         (std::isfinite(a) && std::isfinite(b) && std::abs(a - b) <= 1e-4 * std::max(std::abs(a), std::abs(b)));
}

/// The general comparison: texts; numbers to 1e-4, also multiplied or divided by 100; parts of tuples.
sameness equal_numerically(const std::string& answer, const std::string& truth, double pi, int depth = 0);

/// Compares what commas separate; nothing if there are unequal numbers of parts.
std::optional<sameness> equal_in_parts(std::string_view answer, std::string_view truth, bool trimmed, int depth);

/// An answer in Python's notation, Matrix([[1], [2]]) or [5], and a pmatrix. Undecided if an entry is no number.
sameness equal_to_matrix(std::string_view answer, std::string_view truth, int depth);

/// equal_numerically() of texts that are no numbers.
sameness equal_as_tuples(const std::string& answer, const std::string& truth, int depth);

}  // namespace detail

/// Scores one response. grade_answer() grades its answer, then the answers are compared as numbers; \pi is tried as
/// 3.14159... and as 3.14. Answers that only computer algebra could compare are `undecided` and count as wrong. Thread
/// safe.
verdict score_prime_math(std::string_view response, std::string_view ground_truth,
                         const prime_math_settings& settings = {});

}  // namespace verify
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_VERIFY)
RLCORE_BEGIN
namespace verify {

RLCORE_INLINE prime_math_answer extract_prime_math(std::string_view response) {
  using detail::strip;
  bool matched = false;
  const auto after = [&](std::string_view mark) {
    const std::size_t at = detail::lower(response).rfind(mark);
    if (at == std::string::npos) return;
    matched = true;
    response = strip(response.substr(at + mark.size()));
  };
  for (const char* mark : {"answer:", "answer is", "answers are"}) after(mark);
  for (const char* mark : {"is answer", "is the answer", "are answers", "are the answers"})
    if (const std::size_t at = detail::lower(response).rfind(mark); at != std::string::npos) {
      matched = true;
      response = strip(response.substr(0, at));
    }
  std::size_t box = response.rfind("\\boxed");
  if (box == std::string_view::npos) box = response.rfind("\\fbox");
  if (box != std::string_view::npos) {
    const std::size_t open = response.find('{', box), close = detail::closing_brace(response, box);
    if (open != std::string_view::npos && close != std::string_view::npos && close > open)
      if (const std::string_view inside = strip(response.substr(open + 1, close - open - 1)); !inside.empty()) {
        matched = true;
        response = inside;
      }
  }
  if (const std::size_t dot = response.rfind(". "); dot != std::string_view::npos)
    response = strip(response.substr(0, dot));
  for (const char* mark : {"be ", "is ", "are ", "=", ": ", "get ", "be\n", "is\n", "are\n", ":\n", "get\n"})
    after(mark);
  matched = matched && response.find_first_of("0123456789") != std::string_view::npos;
  return {std::string(response), matched};
}

}  // namespace verify

namespace verify::detail {

RLCORE_INLINE std::optional<double> digits_of(const numeric_text& x) {
  if (x.number) return x.number;
  std::string s = x.text;
  replace_all(s, contains(s, "{,}") ? "{,}" : ",", "");
  return python_float(s);
}

RLCORE_INLINE std::optional<numeric_text> calculate(std::string_view text) {
  const std::string_view s = strip(text);
  if (s.empty() || s.size() > 1000 || s.find_first_not_of("0123456789.+-*/() ,[]") != s.npos) return std::nullopt;
  const auto number_in = [](std::string_view part) -> std::optional<double> {
    sample_point nowhere;
    const auto x = formula(part, nowhere, formula::grammar::python).value();
    return x && std::isfinite(x->value.real()) ? std::optional(x->value.real()) : std::nullopt;
  };
  if (const auto number = number_in(s)) return numeric_text{"", number};
  const bool list = s.front() == '[' && s.back() == ']', in_brackets = list || (s.front() == '(' && s.back() == ')');
  if (!list && !contains(s, ",")) return std::nullopt;
  std::string out = list ? "[" : "(";
  for (const std::string_view part : split(in_brackets && s.size() > 1 ? s.substr(1, s.size() - 2) : s, ",")) {
    const auto number = number_in(part);
    if (!number) return std::nullopt;
    std::array<char, 40> digits;
    std::snprintf(digits.data(), digits.size(), "%.17g", *number);
    out.append(out.size() > 1 ? ", " : "").append(digits.data());
  }
  return numeric_text{out + (list ? "]" : ")"), {}};
}

RLCORE_INLINE std::string interval_in_brackets(const std::string& text) {
  struct form {
    std::string_view name, open, close;
  };
  if (!text.ends_with(')') || contains(text, "\n")) return text;
  for (const form& f : {form{"Interval(", "[", "]"}, form{"Interval.Ropen(", "[", ")"},
                        form{"Interval.Lopen(", "(", "]"}, form{"Interval.open(", "(", ")"}})
    if (text.starts_with(f.name))
      return std::string(f.open).append(text, f.name.size(), text.size() - 1 - f.name.size()).append(f.close);
  return text;
}

RLCORE_INLINE std::optional<numeric_text> prepare_numeric(const std::string& answer, double pi) {
  const auto number_end = [&](std::size_t i) {
    const std::size_t begin = i;
    while (i < answer.size() && is_digit(answer[i])) ++i;
    if (i == begin) return std::size_t{0};
    if (i + 1 < answer.size() && answer[i] == '.' && is_digit(answer[i + 1]))
      for (++i; i < answer.size() && is_digit(answer[i]);) ++i;
    return i;
  };
  if (answer.starts_with('$') && number_end(1) != 0) return numeric_text{answer.substr(1), {}};
  if (const std::size_t end = number_end(0); end != 0 && (answer.substr(end) == "%" || answer.substr(end) == "\\%"))
    return numeric_text{answer.substr(0, end), {}};
  if (const std::size_t base = answer.find('_'); base != std::string::npos) {
    const auto x = python_float(std::string_view(answer).substr(0, base));
    if (!x || !std::isfinite(*x)) return std::nullopt;
    return numeric_text{"", std::trunc(*x)};
  }
  numeric_text out{answer, {}};
  if (!contains(answer, "\\pi")) return out;
  std::array<char, 40> digits;
  std::snprintf(digits.data(), digits.size(), "%.17g", pi);
  std::string& s = out.text;
  s.clear();
  for (std::size_t done = 0;;) {
    const std::size_t at = answer.find("\\pi", done);
    s.append(answer, done, at - done);
    if (at == std::string::npos) break;
    (s += !s.empty() && is_digit(s.back()) ? "*" : "1*") += digits.data();
    done = at + 3;
  }
  const auto result = calculate(s);
  return result ? *result : out;
}

RLCORE_INLINE sameness equal_numerically(const std::string& answer, const std::string& truth, double pi, int depth) {
  auto a = prepare_numeric(answer, pi);
  const auto b = prepare_numeric(truth, pi);
  if (!a || !b || depth > 8) return sameness::different;
  if (count_code_points(a->text, 1001) > 1000) {
    std::size_t end = 0;
    for (int i = 0; i < 1000; ++i) end += code_point_bytes(a->text, end);
    a->text.resize(end);
  }
  const auto bare = [](std::string s) {
    std::erase(s, ' ');
    return s;
  };
  if (!a->number && !b->number &&
      (lower_letters(strip(a->text)) == lower_letters(strip(b->text)) || bare(a->text) == bare(b->text)))
    return sameness::equal;
  const auto x = digits_of(*a), y = digits_of(*b);
  if (x && y) {
    const bool equal = is_close(*y / 100, *x) || is_close(*y, *x) || is_close(*y * 100, *x);
    return equal ? sameness::equal : sameness::different;
  }
  const std::string p(strip(a->text)), q(strip(b->text));
  if (a->number || b->number || a->text.empty()) return sameness::different;
  return equal_as_tuples(interval_in_brackets(p), q, depth);
}

RLCORE_INLINE std::optional<sameness> equal_in_parts(std::string_view answer, std::string_view truth, bool trimmed,
                                                     int depth) {
  const std::vector<std::string_view> u = split(answer, ","), v = split(truth, ",");
  if (u.size() != v.size() || u.size() > 100) return std::nullopt;
  sameness result = sameness::equal;
  for (std::size_t i = 0; i < u.size() && result != sameness::different; ++i) {
    const sameness part = equal_numerically(std::string(trimmed ? strip(u[i]) : u[i]),
                                            std::string(trimmed ? strip(v[i]) : v[i]), std::numbers::pi, depth + 1);
    if (part != sameness::equal) result = part;
  }
  return result;
}

RLCORE_INLINE sameness equal_to_matrix(std::string_view answer, std::string_view truth, int depth) {
  const bool list = answer.starts_with('[');
  std::string numbers(list ? answer : answer.substr(std::string_view("Matrix").size()));
  std::erase_if(numbers, [](char c) { return contains("()[]", std::string_view(&c, 1)); });
  const std::vector<std::string_view> entries = split(numbers, ",");
  if (entries.size() > 100) return sameness::undecided;
  for (const std::string_view entry : entries)
    if (!python_float(entry)) return sameness::undecided;
  std::vector<std::string> items;
  if (list) {
    std::string inside(truth);
    for (const char* mark : {"\\begin{pmatrix}", "\\end{pmatrix}"}) replace_all(inside, mark, "");
    if (entries.size() > 1 || inside.find_first_of("\\&") != std::string::npos) return sameness::different;
    items.push_back(inside);
  } else {  // every other word between the first and the last is an entry
    std::vector<std::string> words;
    for (const std::string_view word : split(truth, " "))
      if (!strip(word).empty()) words.emplace_back(strip(word));
    for (std::size_t i = 1; i + 1 < words.size(); i += 2) items.push_back(words[i]);
  }
  if (items.size() != entries.size()) return sameness::different;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (equal_numerically(std::string(entries[i]), items[i], std::numbers::pi, depth + 1) != sameness::equal)
      return sameness::different;
  return sameness::equal;
}

RLCORE_INLINE sameness equal_as_tuples(const std::string& p, const std::string& q, int depth) {
  const auto without_brackets = [&](std::string s) {
    const bool both = (p.starts_with('[') && p.ends_with(']') && !q.starts_with('(')) ||
                      (p.starts_with('(') && p.ends_with(')') && !q.starts_with('['));
    if (both) {
      const std::size_t begin = s.find_first_not_of("[]()"), end = s.find_last_not_of("[]()");
      s = begin == std::string::npos ? std::string() : s.substr(begin, end + 1 - begin);
    }
    std::erase_if(s, [](char c) { return contains("{}()", std::string_view(&c, 1)); });
    return s;
  };
  const auto between = [](std::string_view s, std::size_t begin) {
    return begin < s.size() ? s.substr(begin, s.size() - 1 - begin) : std::string_view{};
  };
  if (without_brackets(p) == without_brackets(q)) return sameness::equal;
  if (p.empty() || q.empty()) return sameness::different;
  if (contains("([", p.substr(0, 1)) && contains(")]", p.substr(p.size() - 1)) && p.front() == q.front() &&
      p.back() == q.back())
    if (const auto result = equal_in_parts(between(p, 1), between(q, 1), false, depth);
        result && *result != sameness::different)
      return *result;
  if (contains(p, ",") && contains(q, ","))
    if (const auto result = equal_in_parts(p, q, true, depth)) return *result;
  if (p.starts_with("Point") && q.front() == '(' && q.back() == ')')
    if (const auto result = equal_in_parts(between(p, p.find('(') + 1), between(q, 1), false, depth);
        result && *result != sameness::different)
      return *result;
  if (contains(q, "\\begin{pmatrix}") && (p.starts_with("Matrix") || (p.front() == '[' && p.back() == ']')))
    return equal_to_matrix(p, q, depth);
  return sameness::different;  // here the original uses computer algebra, with a time limit that always fails
}

}  // namespace verify::detail

namespace verify {

RLCORE_INLINE verdict score_prime_math(std::string_view response, std::string_view ground_truth,
                                       const prime_math_settings& settings) {
  if (settings.max_bytes != 0 && response.size() > settings.max_bytes) return {settings.wrong_score, reason::too_long};
  const prime_math_answer answer = extract_prime_math(response);
  const std::string truth(ground_truth);
  sameness same = grade_answer(answer.text, truth);
  if (same != sameness::equal) {
    const bool pi = detail::contains(answer.text, "\\pi") || detail::contains(truth, "\\pi");
    for (const double value : {std::numbers::pi, 3.14}) {
      if (value == 3.14 && !pi) continue;
      const sameness numeric = detail::equal_numerically(answer.text, truth, value);
      if (numeric == sameness::equal || same == sameness::different) same = numeric;
      if (same == sameness::equal) break;
    }
  }
  verdict v{same == sameness::equal ? settings.score : settings.wrong_score, reason::wrong};
  v.why = same == sameness::equal ? reason::correct : same == sameness::undecided ? reason::undecided : reason::wrong;
  if (!answer.matched && v.why == reason::wrong) v.why = reason::no_match;
  if (v.why != reason::no_match) v.pred = answer.text;
  return v;
}

}  // namespace verify
RLCORE_END
#endif
