// Interpreter interface and helpers for filters, tests, methods and functions.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/jinja/python_text.hpp"
#include "rlcore/text/jinja/value.hpp"
#include "rlcore/text/jinja/value_text.hpp"

RLCORE_BEGIN
namespace text::jinja {

/// The interpreter interface of functions.
class services {
 public:
  virtual ~services() = default;
  /// `in` through a filter.
  virtual value apply_filter(const std::string& name, const value& in, call_arguments& arguments) = 0;
  /// Whether `in` passes a test.
  virtual bool passes(const std::string& name, const value& in, call_arguments& arguments) = 0;
  /// Counts `bytes` of work or of memory. Throws render_error if a template exceeds its limit.
  virtual void charge(std::size_t bytes) = 0;
};

/// The elements that a for tag would visit: of a list, keys of a dict, characters of a text, none of an undefined name.
/// Throws render_error for anything else.
value::list_pointer elements_of(const value& v, services& run);

/// The items of a dict as tuples of two.
inline value::list pairs_of(const dictionary& members) {
  value::list out;
  for (const auto& [key, item] : members.entries) out.push_back(value::tuple({value(key), item}));
  return out;
}

/// The string of an argument. Throws render_error for another type.
inline const std::string& text_of(const value& v, std::string_view what) {
  if (const std::string* s = v.text()) return *s;
  throw render_error(std::string(what) + ": expected a string, found " + std::string(v.type_name()) +
                     (v.is_undefined() ? " '" + v.as<undefined>()->name + "'" : ""));
}

/// The integer of an argument, bools included. Throws render_error for another type.
inline std::int64_t integer_of(const value& v, std::string_view what) {
  if (const auto* x = v.integer()) return *x;
  if (const bool* x = v.as<bool>()) return *x ? 1 : 0;
  throw render_error(std::string(what) + ": expected an integer, found " + std::string(v.type_name()));
}

/// `needle in v` of Python. Throws render_error where Python would.
bool contains(const value& v, const value& needle, services& run);

}  // namespace text::jinja

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text::jinja {

RLCORE_INLINE value::list_pointer elements_of(const value& v, services& run) {
  if (const auto* items = v.as<value::list_pointer>()) return *items;
  value::list out;
  if (const std::string* s = v.text()) {
    run.charge(64 * s->size());
    for (const std::string_view c : characters(*s)) out.emplace_back(c);
  } else if (const auto* members = v.as<value::dictionary_pointer>()) {
    run.charge(64 * (*members)->entries.size());
    for (const auto& [key, item] : (*members)->entries) out.emplace_back(key);
  } else if (!v.is_undefined()) {
    throw render_error("a " + std::string(v.type_name()) + " has no elements");
  }
  return std::make_shared<const value::list>(std::move(out));
}

RLCORE_INLINE bool contains(const value& v, const value& needle, services& run) {
  if (const std::string* s = v.text()) {
    run.charge(s->size());
    return s->find(text_of(needle, "in")) != s->npos;
  }
  if (const auto* items = v.items()) {
    run.charge(16 * items->size());
    for (const value& item : *items)
      if (equal(item, needle)) return true;
    return false;
  }
  if (const auto* members = v.as<value::dictionary_pointer>())
    return needle.text() != nullptr && (*members)->find(*needle.text()) != nullptr;
  if (v.is_undefined()) return false;
  throw render_error("a " + std::string(v.type_name()) + " contains nothing");
}

}  // namespace text::jinja
RLCORE_END
#endif
