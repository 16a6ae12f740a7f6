// Scores answers of Geometry3K, and formats.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/verify/grade_answer.hpp"
#include "rlcore/verify/verdict.hpp"

RLCORE_BEGIN
namespace verify {

/// Whether a response begins with <think>, has no second <think>, and has a </think> after it: TRL's
/// think_format_reward. Linear; any text may follow </think>.
constexpr bool has_think_format(std::string_view response) noexcept {
  constexpr std::string_view open = "<think>", close = "</think>";
  if (!response.starts_with(open)) return false;
  const std::string_view rest = response.substr(open.size());
  return rest.find(open) == std::string_view::npos && rest.find(close) != std::string_view::npos;
}

/// Whether a response is <a>...</a><b>...</b>... in the order of `tags`, each tag exactly once, with nothing but white
/// space (ASCII) before, between and after: {"think", "answer"} is the format of DeepSeek-R1-Zero. Linear, allocates
/// only the tags.
inline bool has_tagged_format(std::string_view response, std::initializer_list<std::string_view> tags) {
  const auto blank = [](std::string_view s) { return s.find_first_not_of(" \t\n\v\f\r") == std::string_view::npos; };
  std::size_t at = 0;
  for (const std::string_view tag : tags) {
    const std::string open = "<" + std::string(tag) + ">", close = "</" + std::string(tag) + ">";
    const std::size_t begin = response.find(open), end = response.find(close);
    if (begin == std::string_view::npos || end == std::string_view::npos || begin < at || end < begin) return false;
    if (response.find(open, begin + 1) != std::string_view::npos) return false;
    if (response.find(close, end + 1) != std::string_view::npos) return false;
    if (!blank(response.substr(at, begin - at))) return false;
    at = end + close.size();
  }
  return blank(response.substr(at));
}

/// Settings of score_geo3k().
struct geo3k_settings {
  double format_score = 0.1;                     ///< weight of the format; the answer has the rest
  std::size_t max_bytes = std::size_t{1} << 20;  ///< longer responses are not scored; 0: no limit
};

/// Whether the text is <think>...</think>...\boxed{...}...
bool has_geo3k_format(std::string_view response);

/// Scores one response. `why` is the reason for the answer only, independent of the format. Thread-safe.
verdict score_geo3k(std::string_view response, std::string_view ground_truth, const geo3k_settings& settings = {});

}  // namespace verify
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_VERIFY)
RLCORE_BEGIN
namespace verify {

RLCORE_INLINE bool has_geo3k_format(std::string_view response) {
  constexpr std::string_view open = "<think>", close = "</think>", box = "\\boxed{";
  if (!response.starts_with(open)) return false;
  const std::size_t thought = response.find(close, open.size());
  if (thought == std::string_view::npos) return false;
  const std::size_t boxed = response.find(box, thought + close.size());
  return boxed != std::string_view::npos && response.find('}', boxed + box.size()) != std::string_view::npos;
}

RLCORE_INLINE verdict score_geo3k(std::string_view response, std::string_view ground_truth,
                                  const geo3k_settings& settings) {
  if (settings.max_bytes != 0 && response.size() > settings.max_bytes) return {0, reason::too_long};
  constexpr std::string_view box = "\\boxed{";
  const std::size_t at = response.rfind(box);
  verdict v;
  std::string_view answer = "None";  // the original compares this if no box is found
  if (at != std::string_view::npos) {
    const std::size_t end = detail::closing_brace(response, at);
    v.why = end == std::string_view::npos ? reason::malformed : reason::wrong;
    if (end != std::string_view::npos) {
      answer = detail::strip(response.substr(at + box.size(), end - at - box.size()));
      v.pred.emplace(answer);
    }
  }
  const sameness same = grade_answer(answer, ground_truth, {.liters = false, .bare = true});
  if (same == sameness::equal) v.why = reason::correct;
  if (same == sameness::undecided && v.pred) v.why = reason::undecided;
  v.score = (same == sameness::equal ? 1 - settings.format_score : 0.0) +
            settings.format_score * (has_geo3k_format(response) ? 1.0 : 0.0);
  return v;
}

}  // namespace verify
RLCORE_END
#endif
