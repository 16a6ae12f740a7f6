// The text of a value, as Python prints it, and what filters and methods need of the interpreter.
#pragma once

#include <utf8proc.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/jinja/python_text.hpp"
#include "rlcore/text/jinja/value.hpp"
#include "rlcore/text/python_json.hpp"

RLCORE_BEGIN
namespace text::jinja {

namespace detail {

inline void append_hex(std::string& out, std::uint32_t x, int digits) {
  for (int i = digits - 1; i >= 0; --i) out += "0123456789abcdef"[(x >> (4 * i)) & 15];
}

void append_repr(std::string& out, std::string_view s);

}  // namespace detail

/// Appends repr(v). Throws render_error for values without a reproducible repr.
void append_repr(std::string& out, const value& v);

/// str(v): the output of {{ v }}.
std::string to_text(const value& v);

/// Options of json.dumps.
struct json_style {
  bool ascii = false, sorted = false;  ///< ensure_ascii, sort_keys
  int indent = -1;                     ///< < 0: one line
  std::string item = ", ", key = ": ";
};

/// a == b of Python: 1 == 1.0 == True, dicts in any order.
bool equal(const value& a, const value& b);

/// a < b of Python. Throws render_error for types without order.
bool less(const value& a, const value& b);

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

namespace detail {

void append_json_string(std::string& out, std::string_view s, const json_style& style);

}  // namespace detail

/// Appends json.dumps(v), and counts its bytes. Throws render_error for values that are not JSON.
void append_json(std::string& out, const value& v, const json_style& style, services& run, int level = 0);

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
namespace text::jinja::detail {

RLCORE_INLINE void append_repr(std::string& out, std::string_view s) {
  const char quote = s.find('\'') != s.npos && s.find('"') == s.npos ? '"' : '\'';
  out += quote;
  for (const std::string_view c : characters(s)) {
    const std::int32_t code = code_point(c);
    const auto category = utf8proc_category(code);
    const bool hidden = code < 0x20 || code == 0x7F || category == UTF8PROC_CATEGORY_CC ||
                        category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CS ||
                        category == UTF8PROC_CATEGORY_CO || category == UTF8PROC_CATEGORY_CN ||
                        category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP ||
                        (category == UTF8PROC_CATEGORY_ZS && code != ' ');
    if (code == '\\' || code == quote) {
      (out += '\\') += c;
    } else if (code == '\n' || code == '\r' || code == '\t') {
      (out += '\\') += code == '\n' ? 'n' : code == '\r' ? 'r' : 't';
    } else if (hidden) {
      out += code < 0x100 ? "\\x" : code < 0x10000 ? "\\u" : "\\U";
      append_hex(out, static_cast<std::uint32_t>(code), code < 0x100 ? 2 : code < 0x10000 ? 4 : 8);
    } else {
      out += c;
    }
  }
  out += quote;
}

}  // namespace text::jinja::detail

namespace text::jinja {

RLCORE_INLINE void append_repr(std::string& out, const value& v) {
  if (v.is_none()) {
    out += "None";
  } else if (const bool* b = v.as<bool>()) {
    out += *b ? "True" : "False";
  } else if (const auto* i = v.integer()) {
    out += std::to_string(*i);
  } else if (const auto* big = v.as<big_number>()) {
    out += big->digits;
  } else if (const auto* d = v.as<double>()) {
    out += std::isnan(*d) ? "nan" : std::isinf(*d) ? (*d < 0 ? "-inf" : "inf") : python_float(*d);
  } else if (const std::string* s = v.text()) {
    detail::append_repr(out, *s);
  } else if (const auto* items = v.items()) {
    out += v.is_tuple() ? '(' : '[';
    for (std::size_t n = 0; n < items->size(); ++n) {
      if (n > 0) out += ", ";
      append_repr(out, (*items)[n]);
    }
    out += !v.is_tuple() ? "]" : items->size() == 1 ? ",)" : ")";
  } else if (const auto* members = v.as<value::dictionary_pointer>()) {
    out += '{';
    const char* separator = "";
    for (const auto& [key, item] : (*members)->entries) {
      detail::append_repr(out += std::exchange(separator, ", "), key);
      out += ": ";
      append_repr(out, item);
    }
    out += '}';
  } else if (v.is_undefined()) {
    out += "Undefined";
  } else {
    throw render_error("a " + std::string(v.type_name()) + " cannot be written as text");
  }
}

RLCORE_INLINE std::string to_text(const value& v) {
  if (const std::string* s = v.text()) return *s;
  if (v.is_undefined()) return {};
  std::string out;
  append_repr(out, v);
  return out;
}

RLCORE_INLINE void detail::append_json_string(std::string& out, std::string_view s, const json_style& style) {
  if (!style.ascii) return append_python_string(out, s);
  std::string plain;
  append_python_string(plain, s);
  for (const std::string_view c : characters(plain)) {
    auto code = static_cast<std::uint32_t>(code_point(c));
    if (code < 0x7F || (code == 0x7F && c.size() == 1)) {
      out += c;
      continue;
    }
    if (code >= 0x10000) {
      append_hex(out += "\\u", 0xD800 + ((code - 0x10000) >> 10), 4);
      code = 0xDC00 + ((code - 0x10000) & 0x3FF);
    }
    append_hex(out += "\\u", code, 4);
  }
}

RLCORE_INLINE void append_json(std::string& out, const value& v, const json_style& style, services& run, int level) {
  const auto string = [&](std::string_view s) {
    run.charge(s.size());
    detail::append_json_string(out, s, style);
  };
  const auto next_line = [&](int indented) {
    run.charge(16 + static_cast<std::size_t>(std::max(style.indent, 0) * indented));
    if (style.indent >= 0) (out += '\n').append(static_cast<std::size_t>(style.indent * indented), ' ');
  };
  if (v.is_none()) {
    out += "null";
  } else if (const bool* b = v.as<bool>()) {
    out += *b ? "true" : "false";
  } else if (const auto* i = v.integer()) {
    out += std::to_string(*i);
  } else if (const auto* big = v.as<big_number>()) {
    out += big->digits;
  } else if (const auto* d = v.as<double>()) {
    out += python_float(*d);
  } else if (const std::string* s = v.text()) {
    string(*s);
  } else if (const auto* items = v.items()) {
    out += '[';
    for (std::size_t n = 0; n < items->size(); ++n) {
      if (n > 0) out += style.item;
      next_line(level + 1);
      append_json(out, (*items)[n], style, run, level + 1);
    }
    if (!items->empty()) next_line(level);
    out += ']';
  } else if (const auto* members = v.as<value::dictionary_pointer>()) {
    auto entries = (*members)->entries;
    if (style.sorted)
      std::sort(entries.begin(), entries.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    out += '{';
    for (std::size_t n = 0; n < entries.size(); ++n) {
      if (n > 0) out += style.item;
      next_line(level + 1);
      string(entries[n].first);
      out += style.key;
      append_json(out, entries[n].second, style, run, level + 1);
    }
    if (!entries.empty()) next_line(level);
    out += '}';
  } else {
    throw render_error("tojson: a value of type " + std::string(v.type_name()) + " is no JSON");
  }
}

RLCORE_INLINE bool equal(const value& a, const value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.integer() && b.integer()) return *a.integer() == *b.integer();
    return a.real() == b.real();
  }
  if (const auto *x = a.as<big_number>(), *y = b.as<big_number>(); x && y) return x->digits == y->digits;
  if (a.text() && b.text()) return *a.text() == *b.text();
  if (a.items() && b.items())
    return std::equal(a.items()->begin(), a.items()->end(), b.items()->begin(), b.items()->end(),
                      [](const value& x, const value& y) { return equal(x, y); });
  if (a.as<value::dictionary_pointer>() && b.as<value::dictionary_pointer>()) {
    if (a.members()->entries.size() != b.members()->entries.size()) return false;
    for (const auto& [key, item] : a.members()->entries) {
      const value* other = b.members()->find(key);
      if (other == nullptr || !equal(item, *other)) return false;
    }
    return true;
  }
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

RLCORE_INLINE bool less(const value& a, const value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.integer() && b.integer()) return *a.integer() < *b.integer();
    return a.real() < b.real();
  }
  if (a.text() && b.text()) return *a.text() < *b.text();
  if (a.items() && b.items())
    return std::lexicographical_compare(a.items()->begin(), a.items()->end(), b.items()->begin(), b.items()->end(),
                                        [](const value& x, const value& y) { return less(x, y); });
  throw render_error("'<' is not defined between " + std::string(a.type_name()) + " and " + std::string(b.type_name()));
}

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
    return find_text(*s, text_of(needle, "in")) != s->npos;
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
