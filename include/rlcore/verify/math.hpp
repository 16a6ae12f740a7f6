// Scores answers of MATH after the normalisation of Hendrycks et al., "Measuring Mathematical Problem Solving With the
// MATH Dataset", 2021.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rlcore/verify/python_text.hpp"
#include "rlcore/verify/verdict.hpp"

RLCORE_BEGIN
namespace verify {

namespace detail {

/// The argument of `\sqrt` in braces: \sqrt3 -> \sqrt{3}. Nothing when a root has no argument.
std::optional<std::string> brace_roots(std::string_view text);

/// Both arguments of `\frac` in braces: \frac12 -> \frac{1}{2}, \frac1{72} -> \frac{1}{72}. Unchanged when one is cut
/// short; nothing when one has no argument at all.
std::optional<std::string> brace_fractions(std::string_view text);

/// Whether `text` is an integer as Python prints it (at most 4300 digits, Python's limit).
constexpr bool is_plain_integer(std::string_view text) noexcept {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || digits.size() > 4300 || (digits[0] == '0' && text.size() > 1)) return false;
  return std::all_of(digits.begin(), digits.end(), is_digit);
}

}  // namespace detail

/// The normal form of an answer; nothing if the original raises an exception (two `\text` with a blank after the brace,
/// a root or fraction without argument). The answer `3 \text{ cm}` becomes `3`, `x = .5` becomes `\frac{1}{2}`, `10\%`
/// becomes `10`, and with `bare_percent` `10%` as well.
std::optional<std::string> normalize_math(std::string_view answer, bool bare_percent = false);

/// Equality of normal forms; of the strings themselves if one has no normal form.
inline bool equal_math(std::string_view a, std::string_view b) {
  const auto x = normalize_math(a), y = normalize_math(b);
  return x && y ? *x == *y : a == b;
}

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
namespace verify::detail {

RLCORE_INLINE std::optional<std::string> brace_roots(std::string_view text) {
  constexpr std::string_view root = "\\sqrt";
  std::string out;
  for (std::size_t done = 0;;) {
    const std::size_t at = text.find(root, done);
    if (at == std::string_view::npos) return out.append(text.substr(done));
    const std::size_t after = at + root.size();
    out.append(text.substr(done, after - done));
    if (after == text.size() || text.substr(after).starts_with(root)) return std::nullopt;
    done = after;
    if (text[after] == '{') continue;
    done += code_point_bytes(text, after);
    out.append("{").append(text.substr(after, done - after)).append("}");
  }
}

RLCORE_INLINE std::optional<std::string> brace_fractions(std::string_view text) {
  constexpr std::string_view fraction = "\\frac";
  std::string out;
  std::size_t at = text.find(fraction);
  out.append(text.substr(0, at));
  while (at != std::string_view::npos) {
    const std::size_t begin = at + fraction.size(), next = text.find(fraction, begin);
    const std::string_view part = text.substr(begin, next == std::string_view::npos ? next : next - begin);
    out.append(fraction);
    at = next;
    if (part.empty()) return std::nullopt;
    if (part[0] == '{') {
      out.append(part);
      continue;
    }
    const std::size_t a = code_point_bytes(part, 0);
    if (a == part.size()) return std::string(text);
    out.append("{").append(part.substr(0, a)).append("}");
    if (part[a] == '{') {
      out.append(part.substr(a));
    } else {
      const std::size_t b = code_point_bytes(part, a);
      out.append("{").append(part.substr(a, b)).append("}").append(part.substr(a + b));
    }
  }
  return out;
}

}  // namespace verify::detail

namespace verify {

RLCORE_INLINE std::optional<std::string> normalize_math(std::string_view answer, bool bare_percent) {
  using namespace detail;
  std::string s(answer);
  replace_all(s, "\n", "");
  replace_all(s, "\\!", "");
  replace_all(s, "\\\\", "\\");
  replace_all(s, "tfrac", "frac");
  replace_all(s, "dfrac", "frac");
  replace_all(s, "\\left", "");
  replace_all(s, "\\right", "");
  replace_all(s, "^{\\circ}", "");
  replace_all(s, "^\\circ", "");
  replace_all(s, "\\$", "");
  if (const std::size_t unit = s.find("\\text{ "); unit != std::string::npos) {
    if (s.find("\\text{ ", unit + 1) != std::string::npos) return std::nullopt;
    s.resize(unit);
  }
  replace_all(s, "\\\\%", "");
  replace_all(s, "\\%", "");
  if (bare_percent) replace_all(s, "%", "");
  replace_all(s, " .", " 0.");
  replace_all(s, "{.", "{0.");
  if (s.empty()) return s;
  if (s[0] == '.') s.insert(0, 1, '0');
  if (const std::size_t equal = s.find('='); equal != std::string::npos && s.find('=', equal + 1) == std::string::npos)
    if (count_code_points(std::string_view(s).substr(0, equal), 3) <= 2) s.erase(0, equal + 1);
  const auto roots = brace_roots(s);
  if (!roots) return std::nullopt;
  s = *roots;
  replace_all(s, " ", "");
  const auto fractions = brace_fractions(s);
  if (!fractions) return std::nullopt;
  s = *fractions;
  if (s == "0.5") s = "\\frac{1}{2}";
  const std::size_t slash = s.find('/');
  if (slash == std::string::npos || s.find('/', slash + 1) != std::string::npos) return s;
  const std::string_view a = std::string_view(s).substr(0, slash), b = std::string_view(s).substr(slash + 1);
  if (is_plain_integer(a) && is_plain_integer(b)) s = "\\frac{" + std::string(a) + "}{" + std::string(b) + "}";
  return s;
}

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
