// Evaluates the expressions of a template, within limits on work and on depth.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/text/jinja/arithmetic.hpp"
#include "rlcore/text/jinja/builtins.hpp"
#include "rlcore/text/jinja/filters.hpp"
#include "rlcore/text/jinja/methods.hpp"
#include "rlcore/text/jinja/syntax.hpp"
#include "rlcore/text/jinja/value.hpp"

RLCORE_BEGIN
namespace text::jinja {

/// The variables of a template and its expressions.
class evaluator : public services {
 public:
  /// Work that one rendering may do: about 8 million operations, or 256 MiB written or copied; and for each message of
  /// the conversation as much as 500 operations more.
  static constexpr std::size_t most_work = std::size_t{1} << 28, work_of_element = std::size_t{1} << 14;
  /// Calls, tags and operators inside each other.
  static constexpr std::size_t most_depth = 1000;

  void charge(std::size_t bytes) override {
    if (bytes > allowed_ || (work_ += bytes) > allowed_)
      throw render_error("the template does more work than it may; it may loop over too much");
  }
  value apply_filter(const std::string& name, const value& in, call_arguments& arguments) override;
  bool passes(const std::string& name, const value& in, call_arguments& arguments) override;

 protected:
  /// Names and their values; the names are those of the template's tree.
  struct scope_names {
    std::vector<std::pair<std::string_view, value>> names;
    scope_names* parent = nullptr;
    bool captured = false;  ///< by a macro, which may be called later
  };

  evaluator() : current_(&root_) {}

  /// Allows more work.
  void allow(std::size_t bytes) noexcept { allowed_ += bytes; }

  /// A scope for as long as this lives, inside the current one or inside `home`.
  class scope {
   public:
    explicit scope(evaluator& owner, scope_names* home = nullptr) : owner_(owner), outer_(owner.current_) {
      names_ = std::make_unique<scope_names>();
      names_->parent = home == nullptr ? outer_ : home;
      owner_.current_ = names_.get();
    }
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    ~scope() { close(); }
    /// Returns to the outer scope.
    void close();

   private:
    evaluator& owner_;
    scope_names* outer_;
    std::unique_ptr<scope_names> names_;
  };

  /// One level of calls, tags or operators. Throws render_error when there are too many.
  class level {
   public:
    explicit level(evaluator& owner) : owner_(owner) {
      if (owner_.depth_ == most_depth) throw render_error("macros or tags are nested deeper than the template may");
      ++owner_.depth_;
    }
    level(const level&) = delete;
    level& operator=(const level&) = delete;
    ~level() { --owner_.depth_; }

   private:
    evaluator& owner_;
  };

  /// The current scope, which from now on lives as long as this.
  scope_names* capture_scope() {
    for (scope_names* s = current_; s != nullptr; s = s->parent) s->captured = true;
    return current_;
  }
  /// Releases all variables: breaks the reference cycle between a macro and its scope.
  void forget_scopes() {
    root_.names.clear();
    for (const auto& names : kept_) names->names.clear();
  }

  /// The value of a variable.
  value find(std::string_view name);
  /// Sets a variable of the current scope. `name` must outlive the scope.
  void set(std::string_view name, value item) {
    charge_search(current_->names.size());
    for (auto& [known, old] : current_->names)
      if (known == name) return static_cast<void>(old = std::move(item));
    current_->names.emplace_back(name, std::move(item));
  }

  /// The value of an expression.
  value evaluate(const expression& e);

 private:
  /// Counts a search among so many names or scopes, unless they are as few as in any template.
  void charge_search(std::size_t count) {
    if (count > 256) charge(count);
  }
  value list(const expression& e) {
    value::list items;
    for (const expression_pointer& part : e.parts) items.push_back(evaluate(*part));
    return e.name.empty() ? value(std::move(items)) : value::tuple(std::move(items));
  }
  value members(const expression& e);
  value item(const expression& e) {
    const value from = evaluate(*e.parts[0]);
    if (from.text()) charge(from.text()->size());  // characters are counted from the beginning
    return item_of(from, evaluate(*e.parts[1]));
  }
  value slice(const expression& e);
  value either(const expression& e);
  value comparison(const expression& e);
  value binary(const expression& e) {
    const value left = evaluate(*e.parts[0]);
    return arithmetic(e.name, left, evaluate(*e.parts[1]), *this);
  }
  value concatenation(const expression& e);
  value conditional(const expression& e) {
    if (evaluate(*e.parts[0]).truth()) return evaluate(*e.parts[1]);
    return e.parts[2] ? evaluate(*e.parts[2]) : value(undefined{"the value of an if without else"});
  }

  /// The arguments from parts[1] on, the last of them with names.
  call_arguments arguments(const expression& e, std::string_view callee);
  value filter(const expression& e) {
    const value in = evaluate(*e.parts[0]);
    call_arguments a = arguments(e, e.name);
    return apply_filter(e.name, in, a);
  }
  value test(const expression& e) {
    const value in = evaluate(*e.parts[0]);
    call_arguments a = arguments(e, e.name);
    return passes(e.name, in, a);
  }

  value call(const expression& e);
  value call_value(const value& function, const std::string& name, const expression& e);
  value call_loop(loop_state& loop, call_arguments& a);
  static std::vector<std::string> method_names(const value& self);

  scope_names root_;
  scope_names* current_;
  std::vector<std::unique_ptr<scope_names>> kept_;
  std::size_t work_ = 0, allowed_ = most_work, depth_ = 0;
};

}  // namespace text::jinja
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text::jinja {

RLCORE_INLINE value evaluator::apply_filter(const std::string& name, const value& in, call_arguments& arguments) {
  const auto found = filters().find(name);
  if (found == filters().end()) throw render_error("unknown filter '" + name + "'");
  constexpr std::string_view of_list[] = {"length", "count", "first", "last"}, of_any[] = {"default", "d", "attr"};
  const bool brief = (in.items() && std::ranges::find(of_list, name) != std::end(of_list)) ||
                     std::ranges::find(of_any, name) != std::end(of_any);  // does not look at the content
  charge(brief ? 16 : 16 * in.weight());
  return found->second(in, arguments, *this);
}

RLCORE_INLINE bool evaluator::passes(const std::string& name, const value& in, call_arguments& arguments) {
  const auto found = tests().find(name);
  if (found == tests().end()) throw render_error("unknown test '" + name + "'");
  constexpr std::string_view of_content[] = {"in", "sameas", "lower",    "upper", "eq", "equalto",    "ne",
                                             "lt", "gt",     "lessthan", "le",    "ge", "greaterthan"};
  charge(std::ranges::find(of_content, name) != std::end(of_content) ? 8 * in.weight() : 8);
  return found->second(in, arguments, *this);
}

RLCORE_INLINE void evaluator::scope::close() {
  if (names_ == nullptr) return;
  owner_.current_ = outer_;
  if (names_->captured) owner_.kept_.push_back(std::move(names_));
  names_.reset();
}

RLCORE_INLINE value evaluator::find(std::string_view name) {
  std::size_t searched = 0;
  for (const scope_names* s = current_; s != nullptr; s = s->parent) {
    searched += s->names.size() + 1;
    for (auto at = s->names.rbegin(); at != s->names.rend(); ++at) {
      if (at->first != name) continue;
      charge_search(searched);
      return at->second;
    }
  }
  charge_search(searched);
  return undefined{std::string(name)};
}

RLCORE_INLINE value evaluator::evaluate(const expression& e) {
  const level here(*this);
  charge(32);
  switch (e.kind) {
    case operation::constant:
      return e.constant;
    case operation::name:
      return find(e.name);
    case operation::list:
      return list(e);
    case operation::dictionary:
      return members(e);
    case operation::attribute:
      return attribute_of(evaluate(*e.parts[0]), e.name);
    case operation::item:
      return item(e);
    case operation::slice:
      return slice(e);
    case operation::call:
      return call(e);
    case operation::filter:
      return filter(e);
    case operation::test:
      return test(e);
    case operation::negate:
      return negated(evaluate(*e.parts[0]));
    case operation::plus:
      return arithmetic("+", value(0), evaluate(*e.parts[0]), *this);
    case operation::logical_not:
      return !evaluate(*e.parts[0]).truth();
    case operation::logical_and:
    case operation::logical_or:
      return either(e);
    case operation::compare:
      return comparison(e);
    case operation::arithmetic:
      return binary(e);
    case operation::concatenate:
      return concatenation(e);
    case operation::conditional:
      return conditional(e);
  }
  return {};
}

RLCORE_INLINE value evaluator::members(const expression& e) {
  dictionary out;
  for (std::size_t i = 0; i < e.parts.size(); i += 2) {
    const value key = evaluate(*e.parts[i]);
    out.set(text_of(key, "a key of a dict"), evaluate(*e.parts[i + 1]));
  }
  return out;
}

RLCORE_INLINE value evaluator::slice(const expression& e) {
  const value from = evaluate(*e.parts[0]);
  value bounds[3];
  for (std::size_t i = 0; i < 3; ++i)
    if (e.parts[i + 1]) bounds[i] = evaluate(*e.parts[i + 1]);
  return slice_of(from, bounds, *this);
}

RLCORE_INLINE value evaluator::either(const expression& e) {
  value last;
  for (const expression_pointer& part : e.parts) {
    last = evaluate(*part);
    if (last.truth() == (e.kind == operation::logical_or)) return last;
  }
  return last;
}

RLCORE_INLINE value evaluator::comparison(const expression& e) {
  value left = evaluate(*e.parts[0]);
  for (std::size_t i = 0; i < e.names.size(); ++i) {
    value right = evaluate(*e.parts[i + 1]);
    if (!compare(e.names[i], left, right, *this)) return false;
    left = std::move(right);
  }
  return true;
}

RLCORE_INLINE value evaluator::concatenation(const expression& e) {
  std::string text;
  for (const expression_pointer& part : e.parts) text += to_text(evaluate(*part));
  charge(text.size());
  return text;
}

RLCORE_INLINE call_arguments evaluator::arguments(const expression& e, std::string_view callee) {
  call_arguments a{callee, {}, {}};
  const std::size_t first_named = e.parts.size() - e.names.size();
  for (std::size_t i = 1; i < e.parts.size(); ++i) {
    if (i < first_named)
      a.positional.push_back(evaluate(*e.parts[i]));
    else
      a.named.emplace_back(e.names[i - first_named], evaluate(*e.parts[i]));
  }
  return a;
}

RLCORE_INLINE value evaluator::call(const expression& e) {
  const expression& callee = *e.parts[0];
  if (callee.kind != operation::attribute) {
    const value function = evaluate(callee);
    return call_value(function, callee.name, e);
  }
  const value self = evaluate(*callee.parts[0]);
  call_arguments a = arguments(e, callee.name);
  charge(8 * self.weight());
  if (const auto* table = methods_of(self))
    if (const auto found = table->find(callee.name); found != table->end()) return found->second(self, a, *this);
  if (const auto* loop = self.as<value::loop_pointer>()) return call_loop(**loop, a);
  const value function = attribute_of(self, callee.name);
  if (function.is_undefined())
    throw render_error("a " + std::string(self.type_name()) + " has no method '" + callee.name + "'" +
                       did_you_mean(callee.name, method_names(self)));
  return call_value(function, callee.name, e);
}

RLCORE_INLINE value evaluator::call_value(const value& function, const std::string& name, const expression& e) {
  const auto* target = function.as<value::callable_pointer>();
  if (function.is_undefined())
    throw render_error("'" + function.as<undefined>()->name + "' is undefined; it cannot be called");
  if (target == nullptr || (*target)->call == nullptr)
    throw render_error("'" + name + "' is a " + std::string(function.type_name()) + " and cannot be called here");
  call_arguments a = arguments(e, (*target)->name);
  return (*target)->call(a);
}

RLCORE_INLINE value evaluator::call_loop(loop_state& loop, call_arguments& a) {
  if (a.callee == "cycle") {
    if (a.positional.empty()) throw render_error("loop.cycle() needs something to choose from");
    return a.positional[loop.index % a.positional.size()];
  }
  if (a.callee != "changed") throw render_error("loop." + std::string(a.callee) + "() is not offered");
  const bool same = equal(value(loop.changed), value(a.positional));
  if (!same || loop.changed.empty()) loop.changed = a.positional;
  return !same;
}

RLCORE_INLINE std::vector<std::string> evaluator::method_names(const value& self) {
  std::vector<std::string> names;
  if (const auto* table = methods_of(self))
    for (const auto& [name, function] : *table) names.emplace_back(name);
  return names;
}

}  // namespace text::jinja
RLCORE_END
#endif
