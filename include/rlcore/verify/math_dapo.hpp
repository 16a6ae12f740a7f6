// DAPO math reward (Yu et al., "DAPO", 2025) as verl computes it: the last "Answer: ...", normalised as in Lewkowycz et
// al., "Solving Quantitative Reasoning Problems with Language Models" (2022), and compared as a string.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/verify/python_text.hpp"
#include "rlcore/verify/verdict.hpp"

RLCORE_BEGIN
namespace verify {

/// Settings of score_math_dapo(): answer extraction and scores.
struct math_dapo_settings {
  std::size_t window = 300;  ///< searches only the last `window` Unicode code points; 0: all
  bool strict_box = false;   ///< the answer is the last \boxed{...} of the last 100 code points, taken literally
  bool box_fallback =
      false;  ///< without "Answer:" the strict box counts, as in verl 0.9; not in the original DAPO release
  double score = 1, wrong_score = -1;
};

namespace detail {

/// Replaces `command`...} by the text in between, once per occurrence and within one line, as `command(.*?)}` matches.
void unwrap(std::string& text, std::string_view command);

/// Calls f(line) -> std::string for each line; the line breaks stay.
template <class F>
void for_each_line(std::string& text, F&& f) {
  std::string out;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find('\n', begin);
    out.append(f(std::string_view(text).substr(begin, end == std::string::npos ? end : end - begin)));
    if (end == std::string::npos) break;
    out += '\n';
    begin = end + 1;
  }
  text = std::move(out);
}

/// frac ab -> frac{a}{b} (two arguments) or sqrt a -> sqrt{a} (one), if no brace follows the word.
void brace_arguments(std::string& text, std::string_view word, bool two);

/// The rest of the line after the last `Answer`, blanks, `:`, blanks and line breaks, case-insensitive; nothing if no
/// line matches. As with successive leftmost matches of a regular expression, a match begins only after the line of the
/// previous match.
std::optional<std::string_view> last_answer_line(std::string_view text);

/// The content of the last \boxed{...}; nothing if it is missing or not closed.
std::optional<std::string_view> last_strict_box(std::string_view text);

}  // namespace detail

/// The normal form of an answer: the part after the last "=", without units, spaces and TeX markup.
std::string normalize_math_dapo(std::string_view answer);

/// Scores one response: +1 if the normal forms of its answer and of `ground_truth` are equal, else -1, with `acc` and
/// `pred`. A response without an answer has the pred "[INVALID]" (nothing with strict_box), as in verl. Any bytes are
/// accepted; linear time, thread safe.
verdict score_math_dapo(std::string_view response, std::string_view ground_truth,
                        const math_dapo_settings& settings = {});

}  // namespace verify
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_VERIFY)
RLCORE_BEGIN
namespace verify::detail {

RLCORE_INLINE void unwrap(std::string& text, std::string_view command) {
  std::size_t at = text.find(command);
  if (at == std::string::npos) return;
  std::string out;
  std::size_t done = 0;
  while (at != std::string::npos) {
    const std::size_t begin = at + command.size(), end = text.find_first_of("}\n", begin);
    if (end == std::string::npos) break;
    if (text[end] == '\n') {  // nothing closes on this line
      out.append(text, done, end - done);
      done = end;
    } else {
      out.append(text, done, at - done).append(text, begin, end - begin);
      done = end + 1;
    }
    at = text.find(command, done);
  }
  out.append(text, done);
  text = std::move(out);
}

RLCORE_INLINE void brace_arguments(std::string& text, std::string_view word, bool two) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(word); at != std::string::npos;) {
    const std::size_t a = at + word.size();
    const std::size_t a_bytes = a < text.size() && text[a] != '{' ? code_point_bytes(text, a) : 0;
    const std::size_t b = a + a_bytes;
    const std::size_t b_bytes =
        two && a_bytes > 0 && b < text.size() && text[b] != '\n' ? code_point_bytes(text, b) : 0;
    if (a_bytes == 0 || (two && b_bytes == 0)) {
      at = text.find(word, at + 1);
      continue;
    }
    out.append(text, done, a - done).append("{").append(text, a, a_bytes).append("}");
    if (two) out.append("{").append(text, b, b_bytes).append("}");
    done = b + b_bytes;
    at = text.find(word, done);
  }
  text = out.append(text, done);
}

RLCORE_INLINE std::optional<std::string_view> last_answer_line(std::string_view text) {
  constexpr std::string_view word = "answer";
  const auto is_word = [&](std::size_t at) {
    if (text.size() - at < word.size()) return false;
    for (std::size_t i = 0; i < word.size(); ++i)
      if ((text[at + i] | 0x20) != word[i]) return false;
    return true;
  };
  const auto skip = [&](std::size_t at, std::size_t* last_visible = nullptr) {
    for (std::size_t bytes; at < text.size() && (bytes = space_bytes(text, at)) != 0; at += bytes)
      if (last_visible != nullptr && text[at] != '\n') *last_visible = at;
    return at;
  };
  std::optional<std::string_view> found;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!is_word(at)) continue;
    const std::size_t colon = skip(at + word.size());
    if (colon == text.size() || text[colon] != ':') continue;
    // At the end of the text no character is left: then the last blank that is no line break is the answer.
    std::size_t blank = text.size(), begin = skip(colon + 1, &blank);
    if (begin == text.size()) begin = blank;
    if (begin == text.size()) continue;
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    found = text.substr(begin, end - begin);
    at = end - 1;
  }
  return found;
}

RLCORE_INLINE std::optional<std::string_view> last_strict_box(std::string_view text) {
  constexpr std::string_view box = "\\boxed{";
  const std::size_t at = text.rfind(box);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t end = closing_brace(text, at);
  if (end == std::string_view::npos) return std::nullopt;
  return text.substr(at + box.size(), end - at - box.size());
}

}  // namespace verify::detail

namespace verify {

RLCORE_INLINE std::string normalize_math_dapo(std::string_view answer) {
  using detail::replace_all;
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 10> substitutions{
      {{"an ", ""},
       {"a ", ""},
       {".$", "$"},
       {"\\$", ""},
       {"\\ ", ""},
       {" ", ""},
       {"mbox", "text"},
       {",\\text{and}", ","},
       {"\\text{and}", ","},
       {"\\text{m}", "\\text{}"}}};
  static constexpr std::array<std::string_view, 40> removed{
      "square",     "ways",       "integers",  "dollars",      "mph",
      "inches",     "hours",      "km",        "units",        "\\ldots",
      "sue",        "points",     "feet",      "minutes",      "digits",
      "cents",      "degrees",    "cm",        "gm",           "pounds",
      "meters",     "meals",      "edges",     "students",     "childrentickets",
      "multiples",  "\\text{s}",  "\\text{.}", "\\text{\ns}",  "\\text{}^2",
      "\\text{}^3", "\\text{\n}", "\\text{}",  "\\mathrm{th}", "^\\circ",
      "^{\\circ}",  "\\;",        ",\\!",      "{,}",          "\""};
  std::string s(answer.substr(answer.rfind('=') + 1));  // npos + 1 is 0
  for (const auto& [from, to] : substitutions) replace_all(s, from, to);
  for (const std::string_view word : removed) replace_all(s, word, "");
  replace_all(s, "\\dots", "");
  detail::for_each_line(s, [](std::string_view line) {
    const std::size_t first = line.find('$');
    const std::size_t second = first == std::string_view::npos ? first : line.find('$', first + 1);
    return second == std::string_view::npos ? line : line.substr(first, second + 1 - first);
  });
  for (const std::string_view command : {"\\text{", "\\textbf{", "\\overline{"}) detail::unwrap(s, command);
  detail::for_each_line(s, [](std::string_view line) {
    constexpr std::string_view box = "\\boxed{";
    const std::size_t at = line.find(box), end = line.rfind('}');
    if (at == std::string_view::npos || end == std::string_view::npos || end < at + box.size())
      return std::string(line);
    return std::string(line.substr(0, at)) + std::string(line.substr(at + box.size(), end - at - box.size())) +
           std::string(line.substr(end + 1));
  });
  detail::brace_arguments(s, "frac", true);
  detail::brace_arguments(s, "sqrt", false);
  replace_all(s, "$", "");
  const bool number =
      s.find_first_not_of("0123456789,") == std::string::npos && s.find_first_of("0123456789") != std::string::npos;
  if (number) replace_all(s, ",", "");
  return std::string(detail::strip(s));
}

RLCORE_INLINE verdict score_math_dapo(std::string_view response, std::string_view ground_truth,
                                      const math_dapo_settings& settings) {
  const std::string_view window = settings.window == 0 ? response : detail::last_code_points(response, settings.window);
  const std::string_view box_window = detail::last_code_points(window, 100);
  const auto decide = [&](bool equal, std::optional<std::string> pred, reason otherwise) {
    return verdict{equal ? settings.score : settings.wrong_score, equal ? reason::correct : otherwise, equal,
                   std::move(pred)};
  };
  const auto boxed = [&](std::string_view box) { return decide(box == ground_truth, std::string(box), reason::wrong); };
  const auto no_box = [&] {
    if (detail::contains(box_window, "\\boxed{")) return reason::malformed;
    return detail::last_strict_box(response) ? reason::outside_window : reason::no_match;
  };
  if (settings.strict_box) {
    if (const auto box = detail::last_strict_box(box_window)) return boxed(*box);
    return decide(false, std::nullopt, no_box());
  }
  const auto line = detail::last_answer_line(window);
  const std::string pred = normalize_math_dapo(line ? *line : "[INVALID]");
  if (settings.box_fallback && pred == "[INVALID]")
    if (const auto box = detail::last_strict_box(box_window)) return boxed(*box);
  const bool equal = pred == normalize_math_dapo(ground_truth);
  if (line) return decide(equal, pred, reason::wrong);
  const bool before = window.size() < response.size() && detail::last_answer_line(response).has_value();
  return decide(equal, pred, before ? reason::outside_window : reason::no_match);
}

}  // namespace verify
RLCORE_END
#endif
