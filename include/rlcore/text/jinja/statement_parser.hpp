// Jinja statement parser.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/text/jinja/expression_parser.hpp"
#include "rlcore/text/jinja/syntax.hpp"

RLCORE_BEGIN
namespace text::jinja {

/// Reads a whole template: if, for, set, macro, with, generation, break and continue.
class statement_parser {
 public:
  /// The maximum nesting depth of tags.
  static constexpr std::size_t most_depth = 100;

  /// `words` come from a lexer and must outlive this.
  explicit statement_parser(const std::vector<word>& words) : words_(words), expressions_(words_) {}

  /// The template. Throws format_error "line N: ...".
  block run() {
    block all = body({});
    if (!words_.at(word_kind::end)) words_.fail("{% " + words_.current().text + " %} without its beginning");
    return all;
  }

 private:
  bool at_any(std::initializer_list<std::string_view> names) const {
    return words_.at(word_kind::name) &&
           std::find(names.begin(), names.end(), std::string_view(words_.current().text)) != names.end();
  }
  static bool ends_something(std::string_view name) {
    return name.starts_with("end") || name == "else" || name == "elif";
  }
  statement make(action kind) const { return {kind, words_.line()}; }

  /// Statements up to the tag with one of the names, which is then the current word.
  block body(std::initializer_list<std::string_view> ends);
  void close() { words_.expect(word_kind::close_tag, "the end of the tag %}"); }

  statement tag();

  statement branch();

  std::string variable();

  statement loop();

  statement assignment();

  statement macro();

  statement scope();

  word_stream words_;
  expression_parser expressions_;
  std::size_t depth_ = 0, loops_ = 0;
};

}  // namespace text::jinja
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text::jinja {

RLCORE_INLINE block statement_parser::body(std::initializer_list<std::string_view> ends) {
  if (++depth_ > most_depth) words_.fail("tags are nested deeper than " + std::to_string(most_depth));
  block out;
  for (;;) {
    if (words_.at(word_kind::data)) {
      out.push_back(make(action::data));
      out.back().text = words_.take().text;
    } else if (words_.at(word_kind::open_output)) {
      words_.take();
      out.push_back(make(action::output));
      out.back().parts.push_back(expressions_.read_tuple());
      words_.expect(word_kind::close_output, "the end of the output }}");
    } else if (words_.at(word_kind::open_tag)) {
      words_.take();
      if (at_any(ends) || (words_.at(word_kind::name) && ends_something(words_.current().text))) {
        if (ends.size() > 0 && !at_any(ends)) words_.unexpected("'" + std::string(*(ends.end() - 1)) + "'");
        break;
      }
      out.push_back(tag());
    } else {
      if (ends.size() > 0) words_.unexpected("{% " + std::string(*(ends.end() - 1)) + " %}");
      break;
    }
  }
  --depth_;
  return out;
}

RLCORE_INLINE statement statement_parser::tag() {
  const std::string name = words_.at(word_kind::name) ? words_.current().text : std::string();
  constexpr std::string_view known[] = {"if", "for", "set", "macro", "generation", "with", "break", "continue"};
  if (name.empty()) words_.unexpected("the name of a tag");
  if (std::find(std::begin(known), std::end(known), name) == std::end(known))
    words_.fail("unknown tag '" + name + "'" + did_you_mean(name, known) +
                "; known: if, for, set, macro, generation, with, break, continue, raw");
  if (name == "if") return branch();
  statement s = make(action::leave);
  words_.take();
  if (name == "for") return loop();
  if (name == "set") return assignment();
  if (name == "macro") return macro();
  if (name == "with") return scope();
  if (name == "generation") {
    s.kind = action::generation;
    close();
    s.bodies.push_back(body({"endgeneration"}));
    words_.take();
  } else if (loops_ == 0) {
    words_.fail("{% " + name + " %} outside a loop");
  } else if (name == "continue") {
    s.kind = action::proceed;
  }
  close();
  return s;
}

RLCORE_INLINE statement statement_parser::branch() {
  statement s = make(action::branch);
  while (words_.take_name("if") || words_.take_name("elif")) {
    s.parts.push_back(expressions_.read_tuple());
    close();
    s.bodies.push_back(body({"elif", "else", "endif"}));
  }
  if (words_.take_name("else")) {
    close();
    s.bodies.push_back(body({"endif"}));
  }
  words_.take();
  close();
  return s;
}

RLCORE_INLINE std::string statement_parser::variable() {
  std::string name = words_.expect(word_kind::name, "the name of a variable");
  for (const std::string_view reserved : {"true", "false", "none", "True", "False", "None"})
    if (name == reserved) words_.fail("'" + name + "' cannot be set");
  return name;
}

RLCORE_INLINE statement statement_parser::loop() {
  statement s = make(action::loop);
  const bool bracket = words_.take_sign("(");
  do {
    if (words_.at_name("in") || words_.at_sign(")")) break;
    s.names.push_back(variable());
  } while (words_.take_sign(","));
  if (bracket) words_.expect_sign(")");
  if (s.names.empty() || !words_.take_name("in")) words_.unexpected("'in'");
  s.parts.push_back(expressions_.read_tuple(false));
  s.parts.push_back(words_.take_name("if") ? expressions_.read() : nullptr);
  if (words_.at_name("recursive")) words_.fail("recursive loops are not offered");
  close();
  ++loops_;
  s.bodies.push_back(body({"else", "endfor"}));
  --loops_;
  if (words_.take_name("else")) {
    close();
    s.bodies.push_back(body({"endfor"}));
  }
  words_.take();
  close();
  return s;
}

RLCORE_INLINE statement statement_parser::assignment() {
  statement s = make(action::assign);
  do {
    std::string name = variable();
    if (words_.take_sign(".")) name += "." + words_.expect(word_kind::name, "the name of an attribute");
    s.names.push_back(std::move(name));
  } while (words_.take_sign(","));
  if (words_.take_sign("=")) {
    s.parts.push_back(expressions_.read_tuple());
    close();
    return s;
  }
  if (s.names.size() > 1) words_.unexpected("'='");
  s.kind = action::capture;
  s.parts.push_back(expressions_.read_filters());
  close();
  s.bodies.push_back(body({"endset"}));
  words_.take();
  close();
  return s;
}

RLCORE_INLINE statement statement_parser::macro() {
  statement s = make(action::macro);
  s.names.push_back(variable());
  words_.expect_sign("(");
  while (!words_.at_sign(")")) {
    s.names.push_back(variable());
    if (words_.take_sign("="))
      s.parts.push_back(expressions_.read());
    else if (!s.parts.empty())
      words_.fail("an argument without default behind one with a default");
    if (!words_.take_sign(",")) break;
  }
  words_.expect_sign(")");
  close();
  const std::size_t loops = std::exchange(loops_, 0);
  s.bodies.push_back(body({"endmacro"}));
  loops_ = loops;
  words_.take();
  close();
  return s;
}

RLCORE_INLINE statement statement_parser::scope() {
  statement s = make(action::scope);
  while (!words_.at(word_kind::close_tag)) {
    s.names.push_back(variable());
    words_.expect_sign("=");
    s.parts.push_back(expressions_.read());
    if (!words_.take_sign(",")) break;
  }
  close();
  s.bodies.push_back(body({"endwith"}));
  words_.take();
  close();
  return s;
}

}  // namespace text::jinja
RLCORE_END
#endif
