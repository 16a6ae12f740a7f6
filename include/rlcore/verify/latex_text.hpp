// LaTeX to plain text for short answers, as pylatexenc writes it: \frac{1}{2} -> 1/2, \sqrt{3} -> √(3), \pi -> π.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "rlcore/verify/python_text.hpp"

RLCORE_BEGIN
namespace verify::detail {

/// Knows fractions, roots, text commands, spaces and common symbols; fails on anything else.
class latex_reader {
 public:
  explicit latex_reader(std::string_view text) : text_(text) {}
  /// Nothing for unknown commands, and for dashes or quotes that LaTeX would join.
  std::optional<std::string> run() {
    std::string out;
    if (!read(out, false, 0) || at_ != text_.size()) return std::nullopt;
    return out;
  }

 private:
  static constexpr int deepest = 40;

  static constexpr bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  /// Up to the end, or to the brace that closes a group.
  bool read(std::string& out, bool group, int depth);
  /// A group, a command or one character.
  bool argument(std::string& out, int depth);
  bool command(std::string& out, int depth);

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace verify::detail
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_VERIFY)
RLCORE_BEGIN
namespace verify::detail {

RLCORE_INLINE bool latex_reader::read(std::string& out, bool group, int depth) {
  if (depth > deepest) return false;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '}') {
      if (group) return true;
      ++at_;  // an unmatched one is dropped
      continue;
    }
    if (c == '{') {
      ++at_;
      if (!read(out, true, depth + 1)) return false;
      if (at_ < text_.size()) ++at_;  // a group may be left open
    } else if (c == '\\') {
      if (!command(out, depth)) return false;
    } else if (c == '\n' || c == '&' || c == '#' || c == '%' || c == '~' || c == '`' || c == '\'' ||
               (c == '-' && at_ + 1 < text_.size() && text_[at_ + 1] == '-')) {
      return false;
    } else {
      out += c;
      ++at_;
    }
  }
  return true;
}

RLCORE_INLINE bool latex_reader::argument(std::string& out, int depth) {
  skip_spaces();
  if (at_ == text_.size() || text_[at_] == '}') return false;
  if (text_[at_] == '\\') return command(out, depth + 1);
  if (text_[at_] != '{') {
    const std::size_t bytes = code_point_bytes(text_, at_);
    out += text_.substr(at_, bytes);
    at_ += bytes;
    return true;
  }
  ++at_;
  if (!read(out, true, depth + 1)) return false;
  if (at_ < text_.size()) ++at_;
  return true;
}

RLCORE_INLINE bool latex_reader::command(std::string& out, int depth) {
  struct symbol {
    std::string_view name, text;
  };
  static constexpr std::array<symbol, 48> symbols{
      {{"pi", "π"},          {"cdot", "·"},  {"times", "×"}, {"infty", "∞"}, {"cup", "∪"},   {"cap", "∩"},
       {"alpha", "α"},       {"beta", "β"},  {"gamma", "γ"}, {"delta", "δ"}, {"theta", "θ"}, {"lambda", "λ"},
       {"mu", "μ"},          {"phi", "ϕ"},   {"omega", "ω"}, {"sigma", "σ"}, {"le", "≤"},    {"leq", "≤"},
       {"ge", "≥"},          {"geq", "≥"},   {"ne", "≠"},    {"neq", "≠"},   {"pm", "±"},    {"circ", "∘"},
       {"angle", "∠"},       {"in", "∈"},    {"div", "÷"},   {"ldots", "…"}, {"sin", "sin"}, {"cos", "cos"},
       {"tan", "tan"},       {"log", "log"}, {"ln", "ln"},   {"exp", "exp"}, {"left", ""},   {"right", ""},
       {"displaystyle", ""}, {"quad", "  "}, {",", " "},     {"!", ""},      {";", " "},     {":", " "},
       {" ", " "},           {"{", "{"},     {"}", "}"},     {"$", "$"},     {"%", "%"},     {"mid", "|"}}};
  static constexpr std::array<std::string_view, 11> contents{
      "text", "mathrm", "textbf", "mbox", "mathbf", "textit", "mathit", "boxed", "overline", "textrm", "mathsf"};
  ++at_;
  if (depth > deepest || at_ == text_.size()) return false;
  std::size_t end = at_;
  while (end < text_.size() && is_letter(text_[end])) ++end;
  if (end == at_) ++end;
  const std::string_view name = text_.substr(at_, end - at_);
  at_ = end;
  const bool word = is_letter(name[0]);
  if (name == "frac") {
    if (!argument(out, depth)) return false;
    out += '/';
    return argument(out, depth);
  }
  if (name == "sqrt") {
    skip_spaces();
    if (at_ < text_.size() && text_[at_] == '[') {  // the degree is not kept
      at_ = text_.find(']', at_);
      if (at_ == std::string_view::npos) return at_ = text_.size(), false;
      ++at_;
    }
    out += "√(";
    if (!argument(out, depth)) return false;
    out += ')';
    return true;
  }
  for (const std::string_view known : contents)
    if (name == known) return argument(out, depth);
  for (const symbol& s : symbols)
    if (name == s.name) {
      out += s.text;
      if (word) skip_spaces();
      return true;
    }
  return false;
}

}  // namespace verify::detail
RLCORE_END
#endif
