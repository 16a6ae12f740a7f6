// The tests behind `is`.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/jinja/services.hpp"
#include "rlcore/text/jinja/value.hpp"

RLCORE_BEGIN
namespace text::jinja {

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
