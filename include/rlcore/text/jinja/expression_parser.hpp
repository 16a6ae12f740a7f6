// Expressions of a template: recursive descent with the priorities of jinja2 3.1.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/text/jinja/builtins.hpp"
#include "rlcore/text/jinja/filters.hpp"
#include "rlcore/text/jinja/syntax.hpp"

RLCORE_BEGIN
namespace text::jinja {

/// Reads expressions from a stream of words. Every function throws format_error "line N: ...".
class expression_parser {
 public:
  /// How high the tree of an expression may be, and how deep brackets may be nested.
  static constexpr std::size_t most_height = 500, most_depth = 100;

  /// Reads from `words`, which must outlive this.
  explicit expression_parser(word_stream& words) : words_(words) {}

  /// One expression; `may_choose`: whether `a if b else c` is allowed, which a for tag's list is not.
  expression_pointer read(bool may_choose = true);

  /// One expression, or several with commas between them as a list.
  expression_pointer read_tuple(bool may_choose = true);

  /// The filters `| a | b` of a set block, applied to the text that the block wrote: the name "" stands for it.
  expression_pointer read_filters() {
    expression_pointer e = finish(node(operation::name));
    while (words_.at_sign("|")) e = filter(std::move(e));
    return e;
  }

 private:
  bool at_end() const noexcept {
    return words_.at(word_kind::close_tag) || words_.at(word_kind::close_output) || words_.at_sign(")") ||
           words_.at_sign("=") || words_.at_name("in");
  }
  expression node(operation kind, std::string name = {}) const { return {kind, words_.line(), std::move(name)}; }
  expression_pointer finish(expression e) const;
  template <class... Parts>
  expression_pointer make(operation kind, std::string name, Parts... parts) const {
    expression e = node(kind, std::move(name));
    (e.parts.push_back(std::move(parts)), ...);
    return finish(std::move(e));
  }

  expression_pointer conditional();
  expression_pointer logical_or();
  expression_pointer logical_and();
  expression_pointer logical_not();

  expression_pointer comparison();
  expression_pointer sum();
  expression_pointer concatenation();
  expression_pointer product();
  expression_pointer power();
  expression_pointer unary(bool with_filters);

  expression_pointer primary();

  expression_pointer postfix(expression_pointer e);
  expression_pointer subscript(expression_pointer from);
  void arguments(expression& call);

  expression_pointer filters_and_tests(expression_pointer e);
  expression_pointer filter(expression_pointer from);
  expression_pointer test(expression_pointer from);

  template <class Table>
  static std::vector<std::string> names_of(const Table& table) {
    std::vector<std::string> names;
    for (const auto& [name, function] : table) names.emplace_back(name);
    return names;
  }

  word_stream& words_;
  std::size_t depth_ = 0;
};

}  // namespace text::jinja
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text::jinja {

RLCORE_INLINE expression_pointer expression_parser::read(bool may_choose) {
  if (++depth_ > most_depth) words_.fail("brackets are nested deeper than " + std::to_string(most_depth));
  expression_pointer e = may_choose ? conditional() : logical_or();
  --depth_;
  return e;
}

RLCORE_INLINE expression_pointer expression_parser::read_tuple(bool may_choose) {
  expression_pointer first = read(may_choose);
  if (!words_.at_sign(",")) return first;
  expression items = node(operation::list, "tuple");
  items.parts.push_back(std::move(first));
  while (words_.take_sign(",") && !at_end()) items.parts.push_back(read(may_choose));
  return finish(std::move(items));
}

RLCORE_INLINE expression_pointer expression_parser::finish(expression e) const {
  for (const expression_pointer& part : e.parts)
    if (part) e.height = std::max(e.height, part->height + 1);
  if (e.height > most_height) words_.fail("an expression of more than " + std::to_string(most_height) + " levels");
  return std::make_unique<const expression>(std::move(e));
}

RLCORE_INLINE expression_pointer expression_parser::conditional() {
  expression_pointer e = logical_or();
  while (words_.take_name("if")) {
    expression_pointer condition = logical_or(), otherwise;
    if (words_.take_name("else")) otherwise = read();
    e = make(operation::conditional, "", std::move(condition), std::move(e), std::move(otherwise));
  }
  return e;
}

RLCORE_INLINE expression_pointer expression_parser::logical_or() {
  expression_pointer e = logical_and();
  if (!words_.at_name("or")) return e;
  expression all = node(operation::logical_or);
  all.parts.push_back(std::move(e));
  while (words_.take_name("or")) all.parts.push_back(logical_and());
  return finish(std::move(all));
}

RLCORE_INLINE expression_pointer expression_parser::logical_and() {
  expression_pointer e = logical_not();
  if (!words_.at_name("and")) return e;
  expression all = node(operation::logical_and);
  all.parts.push_back(std::move(e));
  while (words_.take_name("and")) all.parts.push_back(logical_not());
  return finish(std::move(all));
}

RLCORE_INLINE expression_pointer expression_parser::logical_not() {
  std::size_t count = 0;
  while (words_.take_name("not")) ++count;
  expression_pointer e = comparison();
  if (count == 0) return e;
  e = make(operation::logical_not, "", std::move(e));
  return count % 2 == 1 ? std::move(e) : make(operation::logical_not, "", std::move(e));
}

RLCORE_INLINE expression_pointer expression_parser::comparison() {
  expression_pointer e = sum();
  expression all = node(operation::compare);
  for (;;) {
    std::string sign;
    if (words_.at(word_kind::sign))
      for (const std::string_view known : {"==", "!=", "<", "<=", ">", ">="})
        if (words_.current().text == known) sign = known;
    if (words_.at_name("in")) sign = "in";
    if (words_.at_name("not") && words_.following().kind == word_kind::name && words_.following().text == "in") {
      sign = "not in";
      words_.take();
    }
    if (sign.empty()) break;
    words_.take();
    if (all.parts.empty()) all.parts.push_back(std::move(e));
    all.names.push_back(std::move(sign));
    all.parts.push_back(sum());
  }
  return all.parts.empty() ? std::move(e) : finish(std::move(all));
}

RLCORE_INLINE expression_pointer expression_parser::sum() {
  expression_pointer e = concatenation();
  while (words_.at_sign("+") || words_.at_sign("-")) {
    std::string sign = words_.take().text;
    expression_pointer right = concatenation();
    e = make(operation::arithmetic, std::move(sign), std::move(e), std::move(right));
  }
  return e;
}

RLCORE_INLINE expression_pointer expression_parser::concatenation() {
  expression_pointer e = product();
  if (!words_.at_sign("~")) return e;
  expression all = node(operation::concatenate);
  all.parts.push_back(std::move(e));
  while (words_.take_sign("~")) all.parts.push_back(product());
  return finish(std::move(all));
}

RLCORE_INLINE expression_pointer expression_parser::product() {
  expression_pointer e = power();
  while (words_.at_sign("*") || words_.at_sign("/") || words_.at_sign("//") || words_.at_sign("%")) {
    std::string sign = words_.take().text;
    expression_pointer right = power();
    e = make(operation::arithmetic, std::move(sign), std::move(e), std::move(right));
  }
  return e;
}

RLCORE_INLINE expression_pointer expression_parser::power() {
  expression_pointer e = unary(true);
  while (words_.take_sign("**")) {
    expression_pointer right = unary(true);
    e = make(operation::arithmetic, "**", std::move(e), std::move(right));
  }
  return e;
}

RLCORE_INLINE expression_pointer expression_parser::unary(bool with_filters) {
  expression_pointer e;
  if (words_.at_sign("-") || words_.at_sign("+")) {
    if (++depth_ > most_depth) words_.fail("more than " + std::to_string(most_depth) + " signs");
    const operation kind = words_.take().text == "-" ? operation::negate : operation::plus;
    e = make(kind, "", unary(false));
    --depth_;
  } else {
    e = primary();
  }
  e = postfix(std::move(e));
  return with_filters ? filters_and_tests(std::move(e)) : std::move(e);
}

RLCORE_INLINE expression_pointer expression_parser::primary() {
  expression e = node(operation::constant);
  if (words_.at(word_kind::string)) {
    std::string text;
    while (words_.at(word_kind::string)) text += words_.take().text;
    e.constant = value(std::move(text));
  } else if (words_.at(word_kind::integer)) {
    const std::string digits = words_.take().text;
    std::int64_t x = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), x).ec != std::errc())
      words_.fail("the integer " + digits + " does not fit 64 bits");
    e.constant = value(x);
  } else if (words_.at(word_kind::real)) {
    const std::string digits = words_.take().text;
    double x = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), x);
    e.constant = value(x);
  } else if (words_.at(word_kind::name)) {
    const std::string name = words_.take().text;
    if (name == "true" || name == "True" || name == "false" || name == "False") {
      e.constant = value(name[0] == 't' || name[0] == 'T');
    } else if (name != "none" && name != "None") {
      e.kind = operation::name;
      e.name = name;
    }
  } else if (words_.take_sign("(")) {
    if (words_.take_sign(")")) return make(operation::list, "tuple");
    expression_pointer inner = read_tuple();
    words_.expect_sign(")");
    return inner;
  } else if (words_.take_sign("[")) {
    e.kind = operation::list;
    while (!words_.at_sign("]")) {
      e.parts.push_back(read());
      if (!words_.take_sign(",")) break;
    }
    words_.expect_sign("]");
  } else if (words_.take_sign("{")) {
    e.kind = operation::dictionary;
    while (!words_.at_sign("}")) {
      e.parts.push_back(read());
      words_.expect_sign(":");
      e.parts.push_back(read());
      if (!words_.take_sign(",")) break;
    }
    words_.expect_sign("}");
  } else {
    words_.unexpected("a value");
  }
  return finish(std::move(e));
}

RLCORE_INLINE expression_pointer expression_parser::postfix(expression_pointer e) {
  for (;;) {
    if (words_.take_sign(".")) {
      if (words_.at(word_kind::integer)) {
        e = make(operation::item, "", std::move(e), primary());
      } else {
        e = make(operation::attribute, words_.expect(word_kind::name, "the name of an attribute"), std::move(e));
      }
    } else if (words_.take_sign("[")) {
      e = subscript(std::move(e));
    } else if (words_.at_sign("(")) {
      expression call = node(operation::call);
      call.parts.push_back(std::move(e));
      arguments(call);
      e = finish(std::move(call));
    } else {
      return e;
    }
  }
}

RLCORE_INLINE expression_pointer expression_parser::subscript(expression_pointer from) {
  expression_pointer bounds[3];
  int colons = 0;
  while (!words_.at_sign("]")) {
    if (words_.take_sign(":")) {
      if (++colons > 2) words_.unexpected("']'");
    } else {
      if (bounds[colons]) words_.unexpected("']'");
      bounds[colons] = read();
    }
  }
  words_.expect_sign("]");
  if (colons == 0 && !bounds[0]) words_.unexpected("a position in [...] before");
  if (colons == 0) return make(operation::item, "", std::move(from), std::move(bounds[0]));
  return make(operation::slice, "", std::move(from), std::move(bounds[0]), std::move(bounds[1]), std::move(bounds[2]));
}

RLCORE_INLINE void expression_parser::arguments(expression& call) {
  words_.expect_sign("(");
  while (!words_.at_sign(")")) {
    if (words_.at_sign("*") || words_.at_sign("**")) words_.fail("*arguments in a call are not offered");
    if (words_.at(word_kind::name) && words_.following().kind == word_kind::sign && words_.following().text == "=") {
      call.names.push_back(words_.take().text);
      words_.take();
    } else if (!call.names.empty()) {
      words_.fail("an argument without a name behind one with a name");
    }
    call.parts.push_back(read());
    if (!words_.take_sign(",")) break;
  }
  words_.expect_sign(")");
}

RLCORE_INLINE expression_pointer expression_parser::filters_and_tests(expression_pointer e) {
  for (;;) {
    if (words_.at_sign("|")) {
      e = filter(std::move(e));
    } else if (words_.take_name("is")) {
      e = test(std::move(e));
    } else if (words_.at_sign("(")) {
      e = postfix(std::move(e));
    } else {
      return e;
    }
  }
}

RLCORE_INLINE expression_pointer expression_parser::filter(expression_pointer from) {
  words_.expect_sign("|");
  expression e = node(operation::filter, words_.expect(word_kind::name, "the name of a filter"));
  if (!filters().contains(e.name))
    words_.fail("unknown filter '" + e.name + "'" + did_you_mean(e.name, names_of(filters())));
  e.parts.push_back(std::move(from));
  if (words_.at_sign("(")) arguments(e);
  return finish(std::move(e));
}

RLCORE_INLINE expression_pointer expression_parser::test(expression_pointer from) {
  const bool negated = words_.take_name("not");
  expression e = node(operation::test, words_.expect(word_kind::name, "the name of a test"));
  if (!tests().contains(e.name)) words_.fail("unknown test '" + e.name + "'" + did_you_mean(e.name, names_of(tests())));
  e.parts.push_back(std::move(from));
  const bool word = words_.at(word_kind::name) && !words_.at_name("else") && !words_.at_name("or") &&
                    !words_.at_name("and") && !words_.at_name("is") && !words_.at_name("if") &&
                    !words_.at_name("not") && !words_.at_name("in");
  if (words_.at_sign("(")) {
    arguments(e);
  } else if (word || words_.at(word_kind::string) || words_.at(word_kind::integer) || words_.at(word_kind::real) ||
             words_.at_sign("[") || words_.at_sign("{")) {
    e.parts.push_back(postfix(primary()));
  }
  expression_pointer done = finish(std::move(e));
  return negated ? make(operation::logical_not, "", std::move(done)) : std::move(done);
}

}  // namespace text::jinja
RLCORE_END
#endif
