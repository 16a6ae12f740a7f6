// LaTeX as plain text, the text that pylatexenc 2.11 makes of it (latex2text with its defaults).
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/verify/latex_symbols.hpp"
#include "rlcore/verify/python_text.hpp"

RLCORE_BEGIN
namespace verify::detail {

/// Converts LaTeX to text as pylatexenc 2.11 does: symbols become characters, groups lose their braces, unknown
/// commands are removed, \frac{a}{b} is a/b and a matrix is [ a b; c d ]. What does not match or does not end is
/// overlooked.
class latex_reader {
 public:
  explicit latex_reader(std::string_view text) : text_(text), steps_(20 * text.size() + 1000) {}
  /// The text; meaningful if outcome() is `converted`.
  std::string run() { return read({}); }
  latex_outcome outcome() const noexcept { return outcome_; }

 private:
  static constexpr int deepest = 60;
  using arguments = std::vector<std::string>;
  using table = std::vector<std::vector<std::string>>;

  /// What a list of nodes has become so far.
  struct nodes {
    std::string text;
    std::string characters;         ///< those behind the last node
    std::string_view space_behind;  ///< of a command without arguments that is the last node
    bool any = false;
  };

  static constexpr bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
  bool running() {
    if (outcome_ == latex_outcome::converted && steps_-- == 0) outcome_ = latex_outcome::unknown;
    return outcome_ == latex_outcome::converted;
  }
  std::string stop(latex_outcome why) {
    if (outcome_ == latex_outcome::converted) outcome_ = why;
    return {};
  }
  bool at_end() const { return at_ == text_.size() || text_.substr(at_) == "\\"; }
  std::string_view spaces();
  /// The name behind a backslash.
  std::string_view name();
  /// The white space behind a name of letters, up to an empty line.
  std::string_view space_behind(std::string_view name);
  /// The signs here that mean another one, such as --; empty if there are none.
  std::string_view special() const;
  /// Makes a node of the characters.
  void flush(nodes& out) const;
  void end_cell(nodes& out, table& cells) const;

  /// Nodes up to `close`: }, ], \), \], the \end of `environment`, or nothing for the end of the text. With `cells` it
  /// fills the rows of a matrix.
  std::string read(std::string_view close, std::string_view environment = {}, table* cells = nullptr);
  /// What begins with a backslash; true if it is `close`.
  bool read_command(nodes& out, std::string_view close, std::string_view environment, table* cells);
  /// The name in braces behind \begin and \end; then `at_` is behind it.
  std::optional<std::string_view> environment_name();
  std::string read_environment(std::string_view name);
  std::string matrix(const table& cells);
  static std::string indented(std::string text) {
    replace_all(text, "\n", "\n    ");
    return "\n    " + text + "\n";
  }
  std::string read_formula(std::string_view close, std::string_view environment = {});

  /// Nothing if the text ends before the arguments do; then none of them is read.
  std::optional<arguments> read_arguments(std::string_view kinds);
  /// A group, or one character or command without its arguments; nothing at the end of the text.
  std::optional<std::string> argument();
  /// Its length counts as steps: an accent on every accent of its argument doubles the text at each level.
  std::string text_of(std::string_view name, const std::optional<arguments>& given) {
    std::string text = latex_command_text(name, given ? &*given : nullptr, outcome_);
    if (text.size() >= steps_) return stop(latex_outcome::unknown);
    steps_ -= text.size();
    return text;
  }

  std::string_view text_;
  std::size_t at_ = 0, steps_;
  int depth_ = 0;
  bool in_formula_ = false;
  latex_outcome outcome_ = latex_outcome::converted;
};

}  // namespace verify::detail
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_VERIFY)
RLCORE_BEGIN
namespace verify::detail {

RLCORE_INLINE std::string_view latex_reader::spaces() {
  const std::size_t begin = at_;
  for (std::size_t bytes; at_ < text_.size() && (bytes = space_bytes(text_, at_)) != 0;) at_ += bytes;
  return text_.substr(begin, at_ - begin);
}

RLCORE_INLINE std::string_view latex_reader::name() {
  const std::size_t begin = at_ + 1;
  std::size_t end = begin;
  for (std::size_t bytes; (bytes = letter_bytes(text_, end)) != 0;) end += bytes;
  if (end == begin) end += code_point_bytes(text_, begin);
  at_ = end;
  return text_.substr(begin, end - begin);
}

RLCORE_INLINE std::string_view latex_reader::space_behind(std::string_view name) {
  if (letter_bytes(name, 0) == 0) return {};
  const std::size_t begin = at_, empty_line = spaces().find("\n\n");
  if (empty_line != std::string_view::npos) at_ = begin + empty_line;
  return text_.substr(begin, at_ - begin);
}

RLCORE_INLINE std::string_view latex_reader::special() const {
  if (std::string_view("-`'!?&~").find(text_[at_]) == std::string_view::npos) return {};
  for (const std::string_view signs : {"---", "--", "``", "''", "!`", "?`", "&", "~"})
    if (text_.substr(at_).starts_with(signs)) return text_.substr(at_, signs.size());
  return {};
}

RLCORE_INLINE void latex_reader::flush(nodes& out) const {
  if (out.characters.empty()) return;
  if (in_formula_) out.text += out.space_behind;
  if (!in_formula_ || !strip(out.characters).empty()) out.text += out.characters;
  out.characters.clear();
  out.space_behind = {};
  out.any = true;
}

RLCORE_INLINE void latex_reader::end_cell(nodes& out, table& cells) const {
  flush(out);
  if (out.any) cells.back().emplace_back(strip(out.text));
  out = {};
}

RLCORE_INLINE std::string latex_reader::read(std::string_view close, std::string_view environment, table* cells) {
  if (++depth_ > deepest) return stop(latex_outcome::unknown);
  nodes out;
  if (cells) cells->emplace_back();
  while (running()) {
    const std::string_view blank = spaces();
    if (at_end()) {
      const std::size_t empty_line = blank.rfind("\n\n");  // what stands before a last backslash is lost
      out.characters += at_ == text_.size() ? blank : blank.substr(0, empty_line == blank.npos ? 0 : empty_line + 2);
      at_ = text_.size();
      break;
    }
    out.characters += blank;
    const char c = text_[at_];
    const bool bracket = close == "]" && (c == '[' || c == ']');
    if (c == '\\') {
      if (read_command(out, close, environment, cells)) break;
    } else if (c == '}' || (bracket && c == ']')) {
      flush(out);
      if (text_.substr(at_++, 1) == close) break;
    } else if (c == '{' || bracket) {
      flush(out);
      ++at_;
      out.text += read(c == '{' ? "}" : "]");
      out.any = true;
      out.space_behind = {};
    } else if (c == '%' || c == '$') {
      return stop(latex_outcome::unknown);
    } else if (const std::string_view signs = special(); !signs.empty()) {
      flush(out);
      at_ += signs.size();
      if (signs == "&" && cells) {
        end_cell(out, *cells);
      } else {
        out.text += latex_special_text(signs);
        out.any = true;
        out.space_behind = {};
      }
    } else {
      const std::size_t bytes = code_point_bytes(text_, at_);
      out.characters += text_.substr(at_, bytes);
      at_ += bytes;
    }
  }
  --depth_;
  flush(out);
  if (cells) end_cell(out, *cells);
  return out.text;
}

RLCORE_INLINE bool latex_reader::read_command(nodes& out, std::string_view close, std::string_view environment,
                                              table* cells) {
  const std::size_t begin = at_;
  const std::string_view command = name();
  std::optional<std::string_view> of_environment;
  if (command == "begin" || command == "end") {
    of_environment = environment_name();
    if (!of_environment) return out.characters += text_.substr(begin, at_ - begin), false;
  }
  flush(out);
  if (command == "end") return close == "\\end" && *of_environment == environment;
  if (command == ")" || command == "]") return close.size() == 2 && close.substr(1) == command;
  const std::string_view behind = of_environment ? std::string_view{} : space_behind(command);
  const std::string_view kinds = latex_arguments(command);
  std::optional<arguments> given(std::in_place);
  if (!kinds.empty()) given = read_arguments(kinds);
  if (command == "\\" && cells) return end_cell(out, *cells), cells->emplace_back(), false;
  if (command == "begin")
    out.text += read_environment(*of_environment);
  else if (command == "(" || command == "[")
    out.text += read_formula(command == "(" ? "\\)" : "\\]");
  else
    out.text += text_of(command, given);
  const bool bare = command != "begin" && (kinds.empty() || !given);
  out.space_behind = bare ? behind : std::string_view{};
  out.any = true;
  return false;
}

RLCORE_INLINE std::optional<std::string_view> latex_reader::environment_name() {
  const std::size_t begin = at_;
  spaces();
  const std::size_t open = at_, close = text_.find('}', open);
  if (open < text_.size() && text_[open] == '{' && close != std::string_view::npos && close > open + 1) {
    const std::string_view inside = text_.substr(open + 1, close - open - 1);
    const bool valid = std::all_of(inside.begin(), inside.end(), [](char c) {
      return is_letter(c) || is_digit(c) || std::string_view(" *._-").find(c) != std::string_view::npos;
    });
    if (valid) return at_ = close + 1, inside;
  }
  at_ = begin;
  return std::nullopt;
}

RLCORE_INLINE std::string latex_reader::read_environment(std::string_view name) {
  const auto is_one_of = [&](std::string_view names) {
    const std::vector<std::string_view> all = split(names, " ");
    return std::find(all.begin(), all.end(), name) != all.end();
  };
  if (name == "verbatim") return stop(latex_outcome::unknown);
  if (name == "array" || name == "tabularx") read_arguments(name == "array" ? "[{" : "{[{");
  if (is_one_of("tabular alignat alignat* tabular*")) read_arguments(name == "tabular*" ? "{{" : "{");
  if (is_one_of(
          "figure figure* table table* theorem proposition lemma corollary definition conjecture remark proof thm "
          "prop lem cor conj rem defn enumerate itemize description"))
    read_arguments("[");
  if (is_one_of("array pmatrix bmatrix smallmatrix psmallmatrix bsmallmatrix")) {
    table cells;
    read("\\end", name, &cells);
    return matrix(cells);
  }
  if (is_one_of("equation equation* eqnarray eqnarray* align align* multline multline* gather gather* dmath dmath*"))
    return read_formula("\\end", name);
  const std::string text = read("\\end", name);
  return is_one_of("center flushleft flushright") ? "\n" + text + "\n" : text;
}

RLCORE_INLINE std::string latex_reader::matrix(const table& cells) {
  std::size_t width = 0, count = 0;
  for (const std::vector<std::string>& row : cells)
    for (const std::string& cell : row) {
      width = std::max(width, count_code_points(cell));
      ++count;
    }
  if (count == 0) return stop(latex_outcome::refused);
  if (width * count > 4 * text_.size() + 1000) return stop(latex_outcome::unknown);  // one cell is long, many are short
  std::string out = "[ ";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) out += "; ";
    for (std::size_t j = 0; j < cells[i].size(); ++j) {
      if (j > 0) out += ' ';
      out.append(width - count_code_points(cells[i][j]), ' ').append(cells[i][j]);
    }
  }
  return out + " ]";
}

RLCORE_INLINE std::string latex_reader::read_formula(std::string_view close, std::string_view environment) {
  const bool before = std::exchange(in_formula_, true);
  const std::string text(read(close, environment));
  in_formula_ = before;
  return close == "\\)" ? std::string(strip(text)) : indented(std::string(strip(text)));
}

RLCORE_INLINE auto latex_reader::read_arguments(std::string_view kinds) -> std::optional<arguments> {
  const std::size_t begin = at_;
  arguments given;
  for (const char kind : kinds) {
    const std::size_t before = at_;
    if (kind == '{') {
      auto one = argument();
      if (!one) return at_ = begin, std::nullopt;
      given.push_back(std::move(*one));
      continue;
    }
    given.emplace_back();
    if (kinds == "*[" && kind == '[' && at_ < text_.size() && space_bytes(text_, at_) != 0) continue;
    const bool empty_line = contains(spaces(), "\n\n");
    if (kind == '*' && at_end() && !empty_line) return at_ = begin, std::nullopt;
    if (at_ < text_.size() && text_[at_] == kind && !empty_line) {
      ++at_;
      given.back() = kind == '*' ? "*" : read("]");
    } else {
      at_ = before;
    }
  }
  return given;
}

RLCORE_INLINE std::optional<std::string> latex_reader::argument() {
  const std::size_t begin = at_, empty_line = spaces().find("\n\n");
  if (empty_line != std::string_view::npos) {
    at_ = begin + empty_line + 2;
    return in_formula_ ? "" : "\n\n";
  }
  if (at_end()) return std::nullopt;
  const char c = text_[at_];
  if (c == '}') return "";
  if (c == '{') return ++at_, read("}");
  if (c == '%' || c == '$') return stop(latex_outcome::unknown);
  if (c == '\\') {
    const std::size_t backslash = at_;
    const std::string_view command = name();
    if (command == "end") return at_ = backslash, "";
    space_behind(command);
    return contains("()[]", command) ? "" : text_of(command, std::nullopt);
  }
  if (const std::string_view signs = special(); !signs.empty())
    return at_ += signs.size(), std::string(latex_special_text(signs));
  const std::size_t bytes = code_point_bytes(text_, at_);
  at_ += bytes;
  return std::string(text_.substr(at_ - bytes, bytes));
}

}  // namespace verify::detail
RLCORE_END
#endif
