// Jinja built-ins except filters and methods: attributes, functions, tests.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/jinja/methods.hpp"
#include "rlcore/text/jinja/value.hpp"
#include "rlcore/text/jinja/value_text.hpp"

RLCORE_BEGIN
namespace text::jinja {

namespace detail {

/// A property of the variable `loop`.
value loop_attribute(const loop_state& loop, std::string_view name);

[[noreturn]] inline void throw_undefined(const value& v, std::string_view use) {
  throw render_error("'" + v.as<undefined>()->name + "' is undefined; " + std::string(use));
}

}  // namespace detail

/// x[key]. Throws render_error for an undefined x; a missing key is undefined.
value item_of(const value& x, const value& key);

/// x.name: a method before an element, as in Python. Throws render_error for an undefined x.
value attribute_of(const value& x, std::string_view name);

/// The value at a path like "function.name" or 0, for filters with an argument `attribute`.
value path_of(const value& x, const value& path);

namespace detail {

/// dict(members, name=item, ...).
dictionary named_members(const call_arguments& a);

/// The time of strftime_now: the current local time, or SOURCE_DATE_EPOCH in UTC if it is set, for reproducible runs.
std::string time_text(const std::string& format);

value range(call_arguments& a, services& run);

}  // namespace detail

/// namespace, dict, range, raise_exception, strftime_now as values; `run` must outlive them.
dictionary global_functions(services& run);

/// Whether a value passes, with the test's own arguments.
using test_function = bool (*)(const value&, call_arguments&, services&);

namespace detail {

bool same_object(const value& a, const value& b);

inline bool has_case(const value& v, bool upper) {
  const std::string text = to_text(v);
  return change_case(text, upper) == text && change_case(text, !upper) != text;
}

inline bool is_elements(const value& v) {
  return v.text() || v.items() || v.as<value::dictionary_pointer>() || v.is_undefined();
}

}  // namespace detail

/// All tests by name, those of jinja2 that templates use.
const std::map<std::string_view, test_function>& tests();

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

namespace text::jinja::detail {

RLCORE_INLINE dictionary named_members(const call_arguments& a) {
  dictionary out;
  if (a.positional.size() > 1) throw render_error(std::string(a.callee) + "() takes at most 1 argument without name");
  if (!a.positional.empty()) {
    if (!a.positional[0].as<value::dictionary_pointer>())
      throw render_error(std::string(a.callee) + "(): expected a dict, found " +
                         std::string(a.positional[0].type_name()));
    out = *a.positional[0].members();
  }
  for (const auto& [key, item] : a.named) out.set(key, item);
  return out;
}

RLCORE_INLINE std::string time_text(const std::string& format) {
  std::time_t now = std::time(nullptr);
  std::tm parts{};
  if (const char* fixed = std::getenv("SOURCE_DATE_EPOCH")) {
    now = static_cast<std::time_t>(std::atoll(fixed));
    gmtime_r(&now, &parts);
  } else {
    localtime_r(&now, &parts);
  }
  char text[256];
  if (format.size() > 64) throw render_error("strftime_now: a format of more than 64 bytes");
  return std::string(text, std::strftime(text, sizeof text, format.c_str(), &parts));
}

RLCORE_INLINE value range(call_arguments& a, services& run) {
  a.check(3);
  const std::int64_t first = a.positional.size() < 2 ? 0 : integer_of(a.positional[0], "range");
  const std::int64_t last = integer_of(a.positional.size() < 2 ? a.get(0, "stop") : a.positional[1], "range");
  const std::int64_t step = a.positional.size() < 3 ? 1 : integer_of(a.positional[2], "range");
  if (step == 0) throw render_error("range: step 0");
  value::list out;
  constexpr std::size_t most = 100'000;  // the sandbox's
  for (std::int64_t i = first; step > 0 ? i < last : i > last;) {
    if (out.size() == most) throw render_error("range: more than 100000 elements");
    out.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  run.charge(16 * out.size());
  return out;
}

}  // namespace text::jinja::detail

namespace text::jinja {

RLCORE_INLINE dictionary global_functions(services& run) {
  dictionary all;
  const auto add = [&](const char* name, std::function<value(call_arguments&)> call) {
    all.set(name, std::make_shared<const callable>(callable{name, std::move(call)}));
  };
  add("namespace", [](call_arguments& a) -> value {
    dictionary members = detail::named_members(a);
    for (const auto& [key, item] : members.entries) item.check_inside();
    return std::make_shared<dictionary>(std::move(members));
  });
  add("dict", [](call_arguments& a) -> value { return detail::named_members(a); });
  add("range", [&run](call_arguments& a) -> value { return detail::range(a, run); });
  add("raise_exception", [](call_arguments& a) -> value { throw render_error(to_text(a.get(0, "message"))); });
  add("strftime_now",
      [](call_arguments& a) -> value { return detail::time_text(text_of(a.get(0, "format"), "strftime_now")); });
  return all;
}

}  // namespace text::jinja

namespace text::jinja::detail {

RLCORE_INLINE bool same_object(const value& a, const value& b) {
  if (a.type_name() != b.type_name()) return false;
  if (const auto* x = a.as<value::dictionary_pointer>()) return *x == *b.as<value::dictionary_pointer>();
  if (const auto* x = a.as<value::list_pointer>()) return *x == *b.as<value::list_pointer>();
  return equal(a, b);
}

}  // namespace text::jinja::detail

namespace text::jinja {

RLCORE_INLINE const std::map<std::string_view, test_function>& tests() {
  using v = const value&;
  using a = call_arguments&;
  using s = services&;
  static constexpr test_function eq = [](v x, a args, s) { return equal(x, args.get(0, "other")); };
  static constexpr test_function ne = [](v x, a args, s) { return !equal(x, args.get(0, "other")); };
  static constexpr test_function lt = [](v x, a args, s) { return less(x, args.get(0, "other")); };
  static constexpr test_function gt = [](v x, a args, s) { return less(args.get(0, "other"), x); };
  static constexpr test_function le = [](v x, a args, s) { return !less(args.get(0, "other"), x); };
  static constexpr test_function ge = [](v x, a args, s) { return !less(x, args.get(0, "other")); };
  static const std::map<std::string_view, test_function> table = {
      {"defined", [](v x, a, s) { return !x.is_undefined(); }},
      {"undefined", [](v x, a, s) { return x.is_undefined(); }},
      {"none", [](v x, a, s) { return x.is_none(); }},
      {"string", [](v x, a, s) { return x.text() != nullptr; }},
      {"mapping", [](v x, a, s) { return x.as<value::dictionary_pointer>() != nullptr; }},
      {"iterable", [](v x, a, s) { return detail::is_elements(x) || x.as<value::loop_pointer>() != nullptr; }},
      {"sequence", [](v x, a, s) { return detail::is_elements(x); }},
      {"number", [](v x, a, s) { return x.is_number() || x.as<big_number>() != nullptr; }},
      {"integer", [](v x, a, s) { return x.integer() != nullptr || x.as<big_number>() != nullptr; }},
      {"float", [](v x, a, s) { return x.as<double>() != nullptr; }},
      {"boolean", [](v x, a, s) { return x.as<bool>() != nullptr; }},
      {"true", [](v x, a, s) { return x.as<bool>() && *x.as<bool>(); }},
      {"false", [](v x, a, s) { return x.as<bool>() && !*x.as<bool>(); }},
      {"callable", [](v x, a, s) { return x.as<value::callable_pointer>() != nullptr; }},
      {"even", [](v x, a, s) { return integer_of(x, "is even") % 2 == 0; }},
      {"odd", [](v x, a, s) { return integer_of(x, "is odd") % 2 != 0; }},
      {"divisibleby",
       [](v x, a args, s) {
         const std::int64_t by = integer_of(args.get(0, "num"), "is divisibleby");
         if (by == 0) throw render_error("is divisibleby: division by zero");
         return by == -1 || integer_of(x, "is divisibleby") % by == 0;
       }},
      {"in", [](v x, a args, s run) { return contains(args.get(0, "seq"), x, run); }},
      {"sameas", [](v x, a args, s) { return detail::same_object(x, args.get(0, "other")); }},
      {"lower", [](v x, a, s) { return detail::has_case(x, false); }},
      {"upper", [](v x, a, s) { return detail::has_case(x, true); }},
      {"eq", eq},
      {"equalto", eq},
      {"ne", ne},
      {"lt", lt},
      {"lessthan", lt},
      {"gt", gt},
      {"greaterthan", gt},
      {"le", le},
      {"ge", ge},
  };
  return table;
}

}  // namespace text::jinja
RLCORE_END
#endif
