// A parsed template, ready to be rendered any number of times.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/jinja/interpreter.hpp"
#include "rlcore/text/jinja/lexer.hpp"
#include "rlcore/text/jinja/statement_parser.hpp"
#include "rlcore/text/jinja/syntax.hpp"

RLCORE_BEGIN
namespace text::jinja {

/// A Jinja template in the dialect of transformers' chat templates: jinja2's language without template inheritance,
/// call blocks, recursive loops and the filters that no published template uses. Cheap to copy, immutable, usable by
/// many threads at once.
class program {
 public:
  /// Parses `source`, in UTF-8, in time linear in its size. Throws format_error "line N: ...".
  explicit program(std::string_view source) {
    auto parsed = std::make_shared<tree>();
    const auto words = lexer(source).run();
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i].kind == word_kind::name || words[i].kind == word_kind::string) parsed->words.insert(words[i].text);
      if (words[i].kind == word_kind::open_tag && words[i + 1].text == "generation") parsed->marks_generation = true;
    }
    parsed->statements = statement_parser(words).run();
    tree_ = std::move(parsed);
  }

  /// Does a name, an attribute or a string of the tags equal this word? Variables that are never mentioned are never
  /// read.
  bool mentions(std::string_view word) const { return tree_->words.contains(word); }
  /// Does the template mark the assistant's text with {% generation %}?
  bool marks_generation() const noexcept { return tree_->marks_generation; }

  /// The text for the variables; `watched` is a list of dicts among them whose visits by loops are noted. Throws
  /// render_error "line N: ...".
  rendering render(const dictionary& variables, const value& watched = {}) const {
    return interpreter(variables, watched).run(tree_->statements);
  }

 private:
  struct tree {
    block statements;
    std::set<std::string, std::less<>> words;
    bool marks_generation = false;
  };
  std::shared_ptr<const tree> tree_;
};

}  // namespace text::jinja
RLCORE_END
