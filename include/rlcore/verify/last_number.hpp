// Few-shot GSM8K scoring of OpenCompass and AISBench: the last number of the text.
#pragma once

#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

#include "rlcore/verify/python_text.hpp"
#include "rlcore/verify/verdict.hpp"

RLCORE_BEGIN
namespace verify {

/// The last number (digits, optionally a minus before and a fraction after) before the next "Question:", without
/// commas, compared with an integer: correct when the texts are equal or the values differ by less than 1e-6. Linear.
verdict score_last_number(std::string_view response, std::string_view ground_truth);

}  // namespace verify
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_VERIFY)
RLCORE_BEGIN
namespace verify {

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
