// x.name and x[key], as the sandbox of transformers lets templates see them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/jinja/methods.hpp"
#include "rlcore/text/jinja/services.hpp"
#include "rlcore/text/jinja/value.hpp"

RLCORE_BEGIN
namespace text::jinja {

namespace detail {

/// A property of the variable `loop`.
value loop_attribute(const loop_state& loop, std::string_view name);

[[noreturn]] inline void throw_undefined(const value& v, std::string_view use) {
  throw render_error("'" + v.as<undefined>()->name + "' is undefined; " + std::string(use));
}

}  // namespace detail

/// x[key]. Throws render_error for an undefined x; a key that is not there is undefined.
value item_of(const value& x, const value& key);

/// x.name: a method before an element, as in Python. Throws render_error for an undefined x.
value attribute_of(const value& x, std::string_view name);

/// The value at a path like "function.name" or 0, for filters with an argument `attribute`.
value path_of(const value& x, const value& path);

}  // namespace text::jinja
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text::jinja::detail {

RLCORE_INLINE value loop_attribute(const loop_state& loop, std::string_view name) {
  const auto number = [](std::size_t x) { return value(static_cast<std::int64_t>(x)); };
  const std::size_t size = loop.items->size(), i = loop.index;
  if (name == "index") return number(i + 1);
  if (name == "index0") return number(i);
  if (name == "first") return i == 0;
  if (name == "last") return i + 1 == size;
  if (name == "length") return number(size);
  if (name == "revindex") return number(size - i);
  if (name == "revindex0") return number(size - i - 1);
  if (name == "depth") return 1;  // more in recursive loops only
  if (name == "depth0") return 0;
  if (name == "previtem") return i == 0 ? value(undefined{"loop.previtem"}) : (*loop.items)[i - 1];
  if (name == "nextitem") return i + 1 == size ? value(undefined{"loop.nextitem"}) : (*loop.items)[i + 1];
  return undefined{"loop." + std::string(name)};
}

}  // namespace text::jinja::detail

namespace text::jinja {

RLCORE_INLINE value item_of(const value& x, const value& key) {
  if (x.is_undefined()) detail::throw_undefined(x, "it has no elements");
  if (key.text() && x.members()) {
    const value* found = x.members()->find(*key.text());
    if (found != nullptr) return *found;
  }
  const auto* number = key.integer();
  if (number != nullptr && (x.items() || x.text())) {
    const std::size_t size = x.items() ? x.items()->size() : count_characters(*x.text());
    const std::int64_t i = *number < 0 ? *number + static_cast<std::int64_t>(size) : *number;
    if (i >= 0 && static_cast<std::size_t>(i) < size) {
      const auto at = static_cast<std::size_t>(i);
      return x.items() ? (*x.items())[at] : value(characters(*x.text())[at]);
    }
  }
  if (key.text() && has_method(x, *key.text())) return method_value(*key.text());
  return undefined{key.text() ? *key.text() : to_text(key)};
}

RLCORE_INLINE value attribute_of(const value& x, std::string_view name) {
  if (x.is_undefined()) detail::throw_undefined(x, "it has no attribute '" + std::string(name) + "'");
  if (const auto* loop = x.as<value::loop_pointer>()) return detail::loop_attribute(**loop, name);
  if (has_method(x, name)) return method_value(name);
  if (x.members()) {
    const value* found = x.members()->find(name);
    if (found != nullptr) return *found;
  }
  return undefined{std::string(name)};
}

RLCORE_INLINE value path_of(const value& x, const value& path) {
  if (path.integer()) return item_of(x, path);
  const std::string& names = text_of(path, "attribute");
  value at = x;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('.', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    const bool number = !name.empty() && name.size() < 10 && name.find_first_not_of("0123456789") == name.npos;
    if (at.is_undefined()) return at;
    at = item_of(at, number ? value(std::stoi(name)) : value(name));
    begin = end + 1;
  }
  return at;
}

}  // namespace text::jinja
RLCORE_END
#endif
