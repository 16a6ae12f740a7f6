// MATH reward (Hendrycks et al. 2021) as verl computes it: the last box, normalised, compared as a string.
#pragma once

#include <string>
#include <string_view>

#include "rlcore/verify/math_normalize.hpp"
#include "rlcore/verify/verdict.hpp"

RLCORE_BEGIN
namespace verify {

/// Settings of score_math().
struct math_settings {
  double score = 1, wrong_score = 0;
  std::size_t max_bytes = std::size_t{1} << 20;  ///< longer responses are not scored; 0: no limit
};

/// Scores one response: compares the content of its last \boxed{...} (or, if "\boxed " occurs, the text after the last
/// of those up to the next `$`) with the ground truth, both normalised. \fbox and an unclosed box are malformed. Any
/// bytes are accepted; linear time, thread safe.
verdict score_math(std::string_view response, std::string_view ground_truth, const math_settings& settings = {});

}  // namespace verify
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_VERIFY)
RLCORE_BEGIN
namespace verify {

RLCORE_INLINE verdict score_math(std::string_view response, std::string_view ground_truth,
                                 const math_settings& settings) {
  constexpr std::string_view box = "\\boxed", bare_box = "\\boxed ", open_box = "\\boxed{";
  if (settings.max_bytes != 0 && response.size() > settings.max_bytes) return {settings.wrong_score, reason::too_long};
  std::string_view answer;
  if (const std::size_t bare = response.rfind(bare_box); bare != std::string_view::npos) {
    answer = response.substr(bare + bare_box.size());
    answer = answer.substr(0, answer.find('$'));
  } else {
    const std::size_t at = response.rfind(box);
    if (at == std::string_view::npos)
      return {settings.wrong_score,
              response.find("\\fbox") == std::string_view::npos ? reason::no_match : reason::malformed};
    const std::size_t end = detail::closing_brace(response, at);
    if (end == std::string_view::npos || !response.substr(at, end + 1 - at).starts_with(open_box))
      return {settings.wrong_score, reason::malformed};
    answer = response.substr(at + open_box.size(), end - at - open_box.size());
  }
  const auto normal = normalize_math(answer), truth = normalize_math(ground_truth);
  const bool equal = normal && truth ? *normal == *truth : answer == ground_truth;
  verdict v{equal ? settings.score : settings.wrong_score, equal ? reason::correct : reason::wrong};
  v.pred = normal ? *normal : std::string(answer);
  return v;
}

}  // namespace verify
RLCORE_END
#endif
