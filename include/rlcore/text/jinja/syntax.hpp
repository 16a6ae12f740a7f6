// The syntax tree of a template, and the stream of words that parsers read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/jinja/lexer.hpp"
#include "rlcore/text/jinja/value.hpp"

RLCORE_BEGIN
namespace text::jinja {

/// A cursor in the token stream of a template.
class word_stream {
 public:
  /// `words` ends with a word of kind end and must outlive this.
  explicit word_stream(const std::vector<word>& words) : words_(words) {}

  const word& current() const noexcept { return words_[next_]; }
  /// The word behind the current one.
  const word& following() const noexcept { return words_[next_ + 1 < words_.size() ? next_ + 1 : next_]; }
  /// The current word; moves on, but never past the end.
  const word& take() noexcept { return words_[next_ + 1 < words_.size() ? next_++ : next_]; }
  int line() const noexcept { return current().line; }

  /// Whether the current word is of the kind.
  bool at(word_kind kind) const noexcept { return current().kind == kind; }
  /// Whether the sign stands here.
  bool at_sign(std::string_view sign) const noexcept { return at(word_kind::sign) && current().text == sign; }
  /// Whether the name stands here.
  bool at_name(std::string_view name) const noexcept { return at(word_kind::name) && current().text == name; }
  /// Moves past the sign if it stands here.
  bool take_sign(std::string_view sign) noexcept { return at_sign(sign) && (take(), true); }
  /// Moves past the name if it stands here.
  bool take_name(std::string_view name) noexcept { return at_name(name) && (take(), true); }

  /// Moves past a word of the kind. Throws format_error if another stands here.
  std::string expect(word_kind kind, std::string_view what) {
    if (!at(kind)) unexpected(what);
    return take().text;
  }
  /// Moves past the sign. Throws format_error if another word stands here.
  void expect_sign(std::string_view sign) {
    if (!take_sign(sign)) unexpected("'" + std::string(sign) + "'");
  }
  /// Throws format_error "line N: expected ..., found ...".
  [[noreturn]] void unexpected(std::string_view expected) const {
    const word& w = current();
    const bool ends = w.kind == word_kind::close_tag || w.kind == word_kind::close_output;
    fail("expected " + std::string(expected) + ", found " +
         (w.kind == word_kind::end ? "the end of the template"
          : ends                   ? "the end of the tag"
                                   : "'" + w.text.substr(0, 40) + "'"));
  }
  /// Throws format_error "line N: ...".
  [[noreturn]] void fail(const std::string& message) const {
    throw format_error("line " + std::to_string(line()) + ": " + message);
  }

 private:
  const std::vector<word>& words_;
  std::size_t next_ = 0;
};

/// Expression kinds.
enum class operation : std::uint8_t {
  constant,
  name,
  list,         ///< [a, b], and (a, b) with the name tuple
  dictionary,   ///< key, item, key, item, ...
  attribute,    ///< parts[0].name
  item,         ///< parts[0][parts[1]]
  slice,        ///< parts[0][parts[1]:parts[2]:parts[3]], null parts are left out
  call,         ///< parts[0](further parts); the last of them are named
  filter,       ///< parts[0] | name(further parts)
  test,         ///< parts[0] is name(further parts)
  negate,       ///< -a
  plus,         ///< +a
  logical_not,  ///< not a
  logical_and,
  logical_or,
  compare,      ///< names[i] is the operator between parts[i] and parts[i + 1]
  arithmetic,   ///< the operator is the name
  concatenate,  ///< a ~ b ~ c
  conditional   ///< parts[1] if parts[0] else parts[2], which may be null
};

struct expression;
/// An expression, or none.
using expression_pointer = std::unique_ptr<const expression>;

/// A node of an expression.
struct expression {
  operation kind = operation::constant;
  int line = 0;
  std::string name = {};
  value constant = {};
  std::vector<expression_pointer> parts = {};
  std::vector<std::string> names = {};  ///< of named arguments; operators of a comparison
  std::size_t height = 1;               ///< of the tree below, so that it can be limited
};

/// Statement kinds.
enum class action : std::uint8_t {
  data,        ///< text between tags
  output,      ///< {{ parts[0] }}
  branch,      ///< if, elif, else: bodies[i] under parts[i]; one more body is the else
  loop,        ///< for names in parts[0] if parts[1]: bodies[0], else: bodies[1]
  assign,      ///< set names = parts[0]; "ns.x" is an attribute of a namespace
  capture,     ///< set names[0] and filters parts[0]: bodies[0] as text
  macro,       ///< names[0] with the arguments names[1...] and defaults for the last of them
  generation,  ///< the assistant's text: bodies[0]
  scope,       ///< with names = parts: bodies[0]
  leave,       ///< break
  proceed      ///< continue
};

struct statement;
/// The statements between two tags.
using block = std::vector<statement>;

/// One statement: a tag with its parts, or text.
struct statement {
  action kind = action::data;
  int line = 0;
  std::string text = {};
  std::vector<std::string> names = {};
  std::vector<expression_pointer> parts = {};
  std::vector<block> bodies = {};
};

}  // namespace text::jinja
RLCORE_END
