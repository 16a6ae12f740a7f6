// Scores answers of GSM8K, and by the last number.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/verify/python_text.hpp"
#include "rlcore/verify/verdict.hpp"

RLCORE_BEGIN
namespace verify {

/// strict: the last "#### " that a number follows; flexible: the last number of any kind.
enum class gsm8k_method { strict, flexible };

/// Settings of score_gsm8k(): answer extraction and scores.
struct gsm8k_settings {
  gsm8k_method method = gsm8k_method::strict;
  std::size_t window = 300;  ///< searches only the last `window` Unicode code points; 0: all
  double score = 1;          ///< of a correct answer
  double format_score = 0;   ///< of an answer that is found but wrong
};

namespace detail {

constexpr bool is_number_character(char c) noexcept { return (c >= '0' && c <= '9') || c == '.' || c == ','; }

/// Optional minus and a run of digits, dots and commas at `at`; empty if `at` has none.
constexpr std::string_view number_at(std::string_view text, std::size_t at) noexcept {
  const std::size_t digits = at + (at < text.size() && text[at] == '-' ? 1 : 0);
  std::size_t end = digits;
  while (end < text.size() && is_number_character(text[end])) ++end;
  return end == digits ? std::string_view{} : text.substr(at, end - at);
}

/// The last answer after the marker; empty if none. Linear: reads each byte a bounded number of times.
constexpr std::string_view last_marked_number(std::string_view text) noexcept {
  constexpr std::string_view marker = "#### ";
  for (std::size_t end = text.size();;) {
    const std::size_t at = text.substr(0, end).rfind(marker);
    if (at == std::string_view::npos) return {};
    if (const std::string_view number = number_at(text, at + marker.size()); !number.empty()) return number;
    end = at + marker.size() - 1;  // markers do not overlap: each has one space, at its end
  }
}

/// The last number that is more than a single dot; empty if none.
constexpr std::string_view last_number(std::string_view text) noexcept {
  for (std::size_t end = text.size(); end > 0;) {
    while (end > 0 && !is_number_character(text[end - 1])) --end;
    std::size_t begin = end;
    while (begin > 0 && is_number_character(text[begin - 1])) --begin;
    if (begin > 0 && begin < end && text[begin - 1] == '-') --begin;
    if (begin < end && text.substr(begin, end - begin) != ".") return text.substr(begin, end - begin);
    end = begin;
  }
  return {};
}

/// Equality of strings after removing the commas of `number`.
constexpr bool equal_without_commas(std::string_view number, std::string_view truth) noexcept {
  std::size_t at = 0;
  for (const char c : number) {
    if (c == ',') continue;
    if (at == truth.size() || truth[at] != c) return false;
    ++at;
  }
  return at == truth.size();
}

}  // namespace detail

/// Scores one response: the answer is found in its last `window` code points and compared with `ground_truth` as a
/// string ("72." and "72.0" are not "72"); strict drops the answer's commas first, flexible keeps them. Any bytes are
/// accepted; linear time, thread safe.
verdict score_gsm8k(std::string_view response, std::string_view ground_truth, const gsm8k_settings& settings = {});

/// The ground truth of a raw GSM8K row: the number after the first "#### " of its solution, commas removed; nothing if
/// it has none.
std::optional<std::string> gsm8k_ground_truth(std::string_view solution);

/// The last number (digits, optionally a minus before and a fraction after) before the next "Question:", without
/// commas, compared with an integer: correct when the texts are equal or the values differ by less than 1e-6. Linear.
verdict score_last_number(std::string_view response, std::string_view ground_truth);

}  // namespace verify
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_VERIFY)
RLCORE_BEGIN
namespace verify {

RLCORE_INLINE verdict score_gsm8k(std::string_view response, std::string_view ground_truth,
                                  const gsm8k_settings& settings) {
  const bool strict = settings.method == gsm8k_method::strict;
  const auto find = [&](std::string_view text) {
    return strict ? detail::last_marked_number(text) : detail::last_number(text);
  };
  const std::string_view window = settings.window == 0 ? response : detail::last_code_points(response, settings.window);
  const std::string_view answer = find(window);
  if (answer.empty())
    return {0, window.size() < response.size() && !find(response).empty() ? reason::outside_window : reason::no_match};
  const bool equal = strict ? detail::equal_without_commas(answer, ground_truth) : answer == ground_truth;
  verdict v = equal ? verdict{settings.score, reason::correct} : verdict{settings.format_score, reason::wrong};
  v.pred.emplace(answer);
  if (strict) std::erase(*v.pred, ',');
  return v;
}

RLCORE_INLINE std::optional<std::string> gsm8k_ground_truth(std::string_view solution) {
  constexpr std::string_view marker = "#### ";
  for (std::size_t at = solution.find(marker); at != std::string_view::npos; at = solution.find(marker, at + 1)) {
    const std::string_view number = detail::number_at(solution, at + marker.size());
    if (number.empty()) continue;
    std::string truth;
    for (const char c : number)
      if (c != ',') truth += c;
    return truth;
  }
  return std::nullopt;
}

RLCORE_INLINE verdict score_last_number(std::string_view response, std::string_view ground_truth) {
  std::string text(response.substr(0, response.find("Question:")));
  std::erase(text, ',');
  const auto digit = [&](std::size_t i) { return i < text.size() && detail::is_digit(text[i]); };
  const auto digits_end = [&](std::size_t i) {
    while (digit(i)) ++i;
    return i;
  };
  std::string_view number;
  for (std::size_t i = 0; i < text.size();) {
    if (!digit(i) && !(text[i] == '-' && digit(i + 1))) {
      ++i;
      continue;
    }
    std::size_t end = digits_end(i + 1);
    if (end < text.size() && text[end] == '.' && digit(end + 1)) end = digits_end(end + 1);
    number = std::string_view(text).substr(i, end - i);
    i = end;
  }
  if (number.empty()) return {0, reason::no_match};
  verdict v{0, reason::wrong};
  v.pred.emplace(number);
  bool equal = number == ground_truth;
  if (const std::string truth(detail::strip(ground_truth)); !equal && !truth.empty()) {
    const std::size_t sign = truth[0] == '-' || truth[0] == '+' ? 1 : 0;
    const bool integer = truth.size() > sign && truth.find_first_not_of("0123456789", sign) == std::string::npos;
    equal = integer && std::abs(std::strtod(v.pred->c_str(), nullptr) - std::strtod(truth.c_str(), nullptr)) < 1e-6;
  }
  if (equal) v.score = 1, v.why = reason::correct;
  return v;
}

}  // namespace verify
RLCORE_END
#endif
