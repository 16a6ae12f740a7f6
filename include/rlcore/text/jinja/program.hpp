// A compiled template: parsed once, rendered often.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/jinja/arithmetic.hpp"
#include "rlcore/text/jinja/builtins.hpp"
#include "rlcore/text/jinja/evaluator.hpp"
#include "rlcore/text/jinja/lexer.hpp"
#include "rlcore/text/jinja/statement_parser.hpp"
#include "rlcore/text/jinja/syntax.hpp"
#include "rlcore/text/jinja/value.hpp"
#include "rlcore/text/jinja/value_text.hpp"

RLCORE_BEGIN
namespace text::jinja {

/// Executes the statements of a template.
class interpreter final : public evaluator {
 public:
  /// Renders with `variables` and records the visits of the list `watched`; both must outlive this.
  interpreter(const dictionary& variables, const value& watched) {
    watch(watched);
    for (auto& [name, function] : global_functions(*this).entries) set(keep(name), std::move(function));
    for (const auto& [name, item] : variables.entries) set(name, item);
  }
  ~interpreter() override { forget_scopes(); }
  interpreter(const interpreter&) = delete;
  interpreter& operator=(const interpreter&) = delete;

  /// The text of the template. Throws render_error "line N: ...".
  rendering run(const block& statements);

 private:
  enum class flow { next, leave, proceed };

  std::string_view keep(const std::string& name) {
    kept_names_.push_back(std::make_unique<const std::string>(name));
    return *kept_names_.back();
  }

  flow run_block(const block& statements);

  flow run_statement(const statement& s);

  void write(std::string_view text) {
    charge(text.size());
    *out_ += text;
  }

  /// The output of a body, in its own scope.
  value captured(const block& body);

  void assign(const std::vector<std::string>& names, value item);
  void assign(const std::string& name, value item);

  flow loop(const statement& s);

  /// Notes the elements of the watched list, and allows work for each of them.
  void watch(const value& list);
  /// Records the output of a loop for an element of the watched list.
  void note_visit(const value& item, std::size_t begin);

  void define(const statement& s) {
    scope_names* const home = capture_scope();
    set(s.names[0], std::make_shared<const callable>(
                        callable{s.names[0], [this, &s, home](call_arguments& a) { return call_macro(s, home, a); }}));
  }
  value call_macro(const statement& s, scope_names* home, call_arguments& a);

  std::vector<std::pair<const dictionary*, std::size_t>> watched_;  // elements and their places, sorted
  rendering* done_ = nullptr;
  std::string* out_ = nullptr;
  int line_ = 0;
  std::vector<std::unique_ptr<const std::string>> kept_names_;
};

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

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text::jinja {

RLCORE_INLINE rendering interpreter::run(const block& statements) {
  rendering done;
  done_ = &done;
  out_ = &done.text;
  try {
    run_block(statements);
  } catch (const render_error& e) {
    throw render_error("line " + std::to_string(line_) + ": " + e.what());
  }
  return done;
}

RLCORE_INLINE auto interpreter::run_block(const block& statements) -> flow {
  const level here(*this);
  for (const statement& s : statements)
    if (const flow f = run_statement(s); f != flow::next) return f;
  return flow::next;
}

RLCORE_INLINE auto interpreter::run_statement(const statement& s) -> flow {
  line_ = s.line;
  charge(32);
  switch (s.kind) {
    case action::data:
      write(s.text);
      break;
    case action::output: {
      const value written = evaluate(*s.parts[0]);
      charge(written.weight());
      write(to_text(written));
      break;
    }
    case action::branch:
      for (std::size_t i = 0; i < s.bodies.size(); ++i)
        if (i == s.parts.size() || evaluate(*s.parts[i]).truth()) return run_block(s.bodies[i]);
      break;
    case action::loop:
      return loop(s);
    case action::assign:
      assign(s.names, evaluate(*s.parts[0]));
      break;
    case action::capture: {
      value text = captured(s.bodies[0]);
      scope inner(*this);
      set("", std::move(text));
      value filtered = evaluate(*s.parts[0]);
      inner.close();
      assign(s.names, std::move(filtered));
      break;
    }
    case action::macro:
      define(s);
      break;
    case action::generation: {
      if (out_ != &done_->text)
        throw render_error("{% generation %} inside a macro or a set block: its place is not known");
      const std::size_t begin = out_->size();
      const scope inner(*this);
      const flow f = run_block(s.bodies[0]);
      done_->generated.push_back({begin, out_->size()});
      return f;
    }
    case action::scope: {
      std::vector<value> items;
      for (const expression_pointer& part : s.parts) items.push_back(evaluate(*part));
      const scope inner(*this);
      for (std::size_t i = 0; i < items.size(); ++i) set(s.names[i], std::move(items[i]));
      return run_block(s.bodies[0]);
    }
    case action::leave:
      return flow::leave;
    case action::proceed:
      return flow::proceed;
  }
  return flow::next;
}

RLCORE_INLINE value interpreter::captured(const block& body) {
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  const scope inner(*this);
  run_block(body);
  out_ = outer;
  return text;
}

RLCORE_INLINE void interpreter::assign(const std::vector<std::string>& names, value item) {
  if (names.size() == 1) return assign(names[0], std::move(item));
  const auto parts = elements_of(item, *this);
  if (parts->size() != names.size())
    throw render_error("expected " + std::to_string(names.size()) + " values to unpack, found " +
                       std::to_string(parts->size()));
  for (std::size_t i = 0; i < names.size(); ++i) assign(names[i], (*parts)[i]);
}

RLCORE_INLINE void interpreter::assign(const std::string& name, value item) {
  const std::size_t dot = name.find('.');
  if (dot == std::string::npos) return set(name, std::move(item));
  const value target = find(std::string_view(name).substr(0, dot));
  const auto* members = target.as<value::namespace_pointer>();
  if (members == nullptr)
    throw render_error("'" + name.substr(0, dot) + "' is no namespace; only their attributes can be set");
  item.check_inside();
  (*members)->set(std::string_view(name).substr(dot + 1), std::move(item));
}

RLCORE_INLINE auto interpreter::loop(const statement& s) -> flow {
  const bool condition = s.parts[1] != nullptr;
  value::list_pointer items = elements_of(evaluate(*s.parts[0]), *this);
  if (condition) {
    value::list passing;
    for (const value& item : *items) {
      charge(256);
      const scope inner(*this);
      assign(s.names, item);
      if (evaluate(*s.parts[1]).truth()) passing.push_back(item);
    }
    items = std::make_shared<const value::list>(std::move(passing));
  }
  if (items->empty() && s.bodies.size() > 1) {
    const scope inner(*this);
    return run_block(s.bodies[1]);
  }
  const auto state = std::make_shared<loop_state>(loop_state{items, 0, {}});
  flow ended = flow::next;
  for (; state->index < items->size() && ended != flow::leave; ++state->index) {
    charge(256);
    const scope inner(*this);
    set("loop", state);
    const value& item = (*items)[state->index];
    assign(s.names, item);
    const std::size_t begin = out_->size();
    ended = run_block(s.bodies[0]);
    note_visit(item, begin);
  }
  return flow::next;
}

RLCORE_INLINE void interpreter::watch(const value& list) {
  if (list.items() == nullptr) return;
  for (std::size_t i = 0; i < list.items()->size(); ++i)
    if (const auto* element = (*list.items())[i].as<value::dictionary_pointer>())
      watched_.emplace_back(element->get(), i);
  std::sort(watched_.begin(), watched_.end());
  allow(work_of_element * watched_.size());
}

RLCORE_INLINE void interpreter::note_visit(const value& item, std::size_t begin) {
  const auto* visited = item.as<value::dictionary_pointer>();
  if (visited == nullptr || out_ != &done_->text || out_->size() == begin) return;
  const std::pair<const dictionary*, std::size_t> first{visited->get(), 0};
  for (auto at = std::lower_bound(watched_.begin(), watched_.end(), first);
       at != watched_.end() && at->first == visited->get(); ++at)
    done_->visits.push_back({at->second, {begin, out_->size()}});
}

RLCORE_INLINE value interpreter::call_macro(const statement& s, scope_names* home, call_arguments& a) {
  const std::size_t count = s.names.size() - 1, first_default = count - s.parts.size();
  charge((a.named.size() + 1) * count);
  a.check(count, std::vector<std::string>(s.names.begin() + 1, s.names.end()));
  const scope inner(*this, home);
  const int line = line_;
  for (std::size_t i = 0; i < count; ++i) {
    const value* found = a.find(i, s.names[i + 1]);
    if (found != nullptr)
      set(s.names[i + 1], *found);
    else if (i >= first_default)
      set(s.names[i + 1], evaluate(*s.parts[i - first_default]));
    else
      set(s.names[i + 1], undefined{s.names[i + 1]});
  }
  value text = captured(s.bodies[0]);
  line_ = line;
  return text;
}

}  // namespace text::jinja
RLCORE_END
#endif
