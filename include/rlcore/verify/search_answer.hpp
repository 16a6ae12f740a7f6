// Exact match of short answers as in Search-R1 (Jin et al. 2025), after SQuAD's normalisation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/text/parse_json.hpp"
#include "rlcore/verify/python_text.hpp"
#include "rlcore/verify/verdict.hpp"

RLCORE_BEGIN
namespace verify {

/// Settings of score_search_answer().
struct search_settings {
  double score = 1, format_score = 0;            ///< of a right answer, of a wrong one
  std::size_t max_bytes = std::size_t{1} << 20;  ///< longer responses are not scored; 0: no limit
};

namespace detail {

/// Whether a code point is a letter, a digit or an underscore; of those outside ASCII all but signs and spaces.
bool is_word_at(std::string_view text, std::size_t at);

/// The articles a, an, the as whole words become spaces; then words are separated by single spaces.
std::string without_articles(std::string_view text);

inline std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

}  // namespace detail

/// Lower case, no punctuation (ASCII), no articles, single spaces.
std::string normalize_answer(std::string_view answer);

/// Scores the last <answer>...</answer> against the accepted answers: `ground_truth` is a text, or JSON: a list of
/// texts, or {"target": text or list}. With more than ten tags of one kind the score of a right answer is divided by 4.
/// Linear, thread safe.
verdict score_search_answer(std::string_view response, std::string_view ground_truth,
                            const search_settings& settings = {});

}  // namespace verify
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_VERIFY)
RLCORE_BEGIN
namespace verify::detail {

RLCORE_INLINE bool is_word_at(std::string_view text, std::size_t at) {
  const auto c = static_cast<unsigned char>(text[at]);
  if (c < 0x80) return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
  if (space_bytes(text, at) != 0) return false;
  const auto second = at + 1 < text.size() ? static_cast<unsigned char>(text[at + 1]) : 0;
  if (c == 0xC2) {  // U+0080 to U+00BF: ª µ º and the raised and broken digits
    constexpr std::string_view words = "\xAA\xB2\xB3\xB5\xB9\xBA\xBC\xBD\xBE";
    return words.find(static_cast<char>(second)) != std::string_view::npos;
  }
  if (c == 0xC3) return second != 0x97 && second != 0xB7;             // the signs of multiplication and division
  if (c == 0xCC || (c == 0xCD && second < 0xB0)) return false;        // combining marks
  if (c == 0xE2 && (second == 0x80 || second == 0x81)) return false;  // dashes, quotes, ellipses
  return true;
}

RLCORE_INLINE std::string without_articles(std::string_view text) {
  std::string out;
  const auto put_space = [&] {
    if (!out.empty() && out.back() != ' ') out += ' ';
  };
  for (std::size_t at = 0; at < text.size();) {
    if (const std::size_t bytes = space_bytes(text, at); bytes != 0) {
      put_space();
      at += bytes;
    } else if (!is_word_at(text, at)) {
      const std::size_t length = code_point_bytes(text, at);
      out += text.substr(at, length);
      at += length;
    } else {
      std::size_t end = at;
      while (end < text.size() && is_word_at(text, end)) end += code_point_bytes(text, end);
      const std::string_view word = text.substr(at, end - at);
      if (word == "a" || word == "an" || word == "the")
        put_space();
      else
        out += word;
      at = end;
    }
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

}  // namespace verify::detail

namespace verify {

RLCORE_INLINE std::string normalize_answer(std::string_view answer) {
  std::string s = detail::lower_letters(answer);
  std::erase_if(s, [](char c) {
    return (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) || (c >= 0x7B && c <= 0x7E);
  });
  return detail::without_articles(s);
}

RLCORE_INLINE verdict score_search_answer(std::string_view response, std::string_view ground_truth,
                                          const search_settings& settings) {
  constexpr std::string_view open = "<answer>", close = "</answer>";
  if (settings.max_bytes != 0 && response.size() > settings.max_bytes) return {0, reason::too_long};
  std::optional<std::string_view> answer;
  for (std::size_t at = response.find(open); at != std::string_view::npos;) {
    const std::size_t begin = at + open.size(), end = response.find(close, begin);
    if (end == std::string_view::npos) break;
    answer = response.substr(begin, end - begin);
    at = response.find(open, end + close.size());
  }
  if (!answer) return {0, detail::contains(response, open) ? reason::malformed : reason::no_match};

  std::vector<std::string> accepted;
  nlohmann::json json = text::try_parse_json(ground_truth);
  if (json.is_object() && json.contains("target")) json = nlohmann::json(json["target"]);
  if (json.is_string()) json = nlohmann::json::array({json});
  if (json.is_array())
    for (const nlohmann::json& text : json)
      accepted.push_back(text.is_string() ? text.get<std::string>() : text::json_text(text));
  else
    accepted.emplace_back(ground_truth);

  verdict v{settings.format_score, reason::wrong};
  v.pred = normalize_answer(*answer);
  if (std::none_of(accepted.begin(), accepted.end(),
                   [&](const std::string& a) { return normalize_answer(a) == *v.pred; }))
    return v;
  const bool flooded = detail::count_of(response, open) > 10 || detail::count_of(response, close) > 10;
  v.score = flooded ? settings.score / 4 : settings.score;
  v.why = reason::correct;
  return v;
}

}  // namespace verify
RLCORE_END
#endif
