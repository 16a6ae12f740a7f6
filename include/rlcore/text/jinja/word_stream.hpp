// The words of a template one after another, for the parsers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/jinja/lexer.hpp"

RLCORE_BEGIN
namespace text::jinja {

/// A place in the words of a template.
class word_stream {
 public:
  /// `words` ends with one of the kind end and has to outlive this.
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

}  // namespace text::jinja
RLCORE_END
