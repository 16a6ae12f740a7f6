// Jinja filters.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/jinja/builtins.hpp"
#include "rlcore/text/jinja/value.hpp"
#include "rlcore/text/jinja/value_text.hpp"

RLCORE_BEGIN
namespace text::jinja {

/// The result of a filter.
using filter_function = value (*)(const value&, call_arguments&, services&);

namespace detail {

inline bool flag(const call_arguments& a, std::size_t i, std::string_view name, bool otherwise) {
  const value* found = a.find(i, name);
  return found == nullptr ? otherwise : found->truth();
}

/// The key of case-insensitive sorting and comparison.
inline value without_case(const value& v, bool case_sensitive) {
  return !case_sensitive && v.text() ? value(change_case(*v.text(), false)) : v;
}

inline value tojson(const value& v, call_arguments& a, services& run) {
  a.check(4, {"ensure_ascii", "indent", "separators", "sort_keys"});
  json_style style{.ascii = flag(a, 0, "ensure_ascii", false), .sorted = flag(a, 3, "sort_keys", false)};
  if (const value* indent = a.find(1, "indent"); indent != nullptr && !indent->is_none()) {
    style.indent = static_cast<int>(std::clamp<std::int64_t>(integer_of(*indent, "tojson(indent)"), 0, 100));
    style.item = ",";
  }
  if (const value* separators = a.find(2, "separators"); separators != nullptr && !separators->is_none()) {
    const auto* two = separators->items();
    if (two == nullptr || two->size() != 2) throw render_error("tojson(separators): expected two strings");
    style.item = text_of((*two)[0], "tojson(separators)");
    style.key = text_of((*two)[1], "tojson(separators)");
  }
  std::string out;
  append_json(out, v, style, run);
  return out;
}

inline value join(const value& v, call_arguments& a, services& run) {
  a.check(2, {"d", "attribute"});
  const value* between = a.find(0, "d");
  const value* attribute = a.find(1, "attribute");
  const std::string separator = between == nullptr ? std::string() : to_text(*between);
  std::string out;
  bool first = true;
  const auto items = elements_of(v, run);
  for (const value& item : *items) {
    if (!std::exchange(first, false)) out += separator;
    const std::size_t before = out.size();
    out += to_text(attribute == nullptr ? item : path_of(item, *attribute));
    run.charge(16 + separator.size() + out.size() - before);
  }
  return out;
}

/// select, reject, selectattr, rejectattr: the elements (or an attribute of them) that pass a test, or do not.
template <bool by_attribute, bool wanted>
value chosen(const value& v, call_arguments& a, services& run) {
  value::list out;
  const std::size_t test = by_attribute ? 1 : 0;
  call_arguments rest{"test", {}, a.named};
  if (a.positional.size() > test + 1) rest.positional.assign(a.positional.begin() + test + 1, a.positional.end());
  const auto items = elements_of(v, run);
  for (const value& item : *items) {
    const value tested = by_attribute ? path_of(item, a.get(0, "attribute")) : item;
    const bool passes =
        a.positional.size() > test ? run.passes(text_of(a.positional[test], "select"), tested, rest) : tested.truth();
    if (passes == wanted) out.push_back(item);
  }
  return out;
}

inline value map(const value& v, call_arguments& a, services& run) {
  value::list out;
  const value* attribute = a.positional.empty() ? a.find(0, "attribute") : nullptr;
  if (attribute == nullptr && a.positional.empty()) throw render_error("map: expected a filter or attribute=...");
  const auto items = elements_of(v, run);
  for (const value& item : *items) {
    if (attribute != nullptr) {
      value found = path_of(item, *attribute);
      const value* otherwise = a.find(9, "default");
      out.push_back(found.is_undefined() && otherwise != nullptr ? *otherwise : std::move(found));
    } else {
      call_arguments rest{"map", {a.positional.begin() + 1, a.positional.end()}, a.named};
      out.push_back(run.apply_filter(text_of(a.get(0, "filter"), "map"), item, rest));
    }
  }
  return out;
}

/// list.sort, case-insensitive by default.
inline value::list sorted(value::list items, const value* attribute, bool reverse, bool case_sensitive) {
  std::vector<std::pair<value, value>> keyed;
  for (value& item : items)
    keyed.emplace_back(without_case(attribute == nullptr ? item : path_of(item, *attribute), case_sensitive), item);
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& x, const auto& y) {
    return reverse ? less(y.first, x.first) : less(x.first, y.first);
  });
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = std::move(keyed[i].second);
  return items;
}

inline value sort(const value& v, call_arguments& a, services& run) {
  a.check(3, {"reverse", "case_sensitive", "attribute"});
  const value* attribute = a.find(2, "attribute");
  if (attribute != nullptr && attribute->is_none()) attribute = nullptr;
  const auto items = elements_of(v, run);
  run.charge(256 * items->size());
  return sorted(*items, attribute, flag(a, 0, "reverse", false), flag(a, 1, "case_sensitive", false));
}

inline value dictsort(const value& v, call_arguments& a, services& run) {
  a.check(3, {"case_sensitive", "by", "reverse"});
  const auto* members = v.as<value::dictionary_pointer>();
  if (members == nullptr) throw render_error("dictsort: expected a dict, found " + std::string(v.type_name()));
  const value* by = a.find(1, "by");
  const value position(by != nullptr && text_of(*by, "dictsort") == "value" ? 1 : 0);
  run.charge(256 * (*members)->entries.size());
  return sorted(pairs_of(**members), &position, flag(a, 2, "reverse", false), flag(a, 0, "case_sensitive", false));
}

inline value unique(const value& v, call_arguments& a, services& run) {
  value::list out, seen;
  const auto items = elements_of(v, run);
  for (const value& item : *items) {
    value key = without_case(item, flag(a, 0, "case_sensitive", false));
    run.charge(16 * seen.size());
    if (std::any_of(seen.begin(), seen.end(), [&](const value& old) { return equal(old, key); })) continue;
    seen.push_back(std::move(key));
    out.push_back(item);
  }
  return out;
}

template <bool largest>
value extreme(const value& v, call_arguments& a, services& run) {
  const auto items = elements_of(v, run);
  if (items->empty()) return undefined{"the extreme of nothing"};
  const value* best = &items->front();
  const bool sensitive = flag(a, 0, "case_sensitive", false);
  value y = without_case(*best, sensitive);
  for (const value& item : *items) {
    value x = without_case(item, sensitive);
    if (largest ? less(y, x) : less(x, y)) best = &item, y = std::move(x);
  }
  return *best;
}

inline value sum(const value& v, call_arguments& a, services& run) {
  a.check(2, {"attribute", "start"});
  const value* attribute = a.find(0, "attribute");
  double real = 0;
  std::int64_t whole = 0;
  bool exact = true;
  const auto items = elements_of(v, run);
  for (const value& item : *items) {
    const value x = attribute == nullptr || attribute->is_none() ? item : path_of(item, *attribute);
    if (!x.is_number()) throw render_error("sum: expected numbers, found " + std::string(x.type_name()));
    exact = exact && x.as<double>() == nullptr;
    real += x.real();
    if (exact && __builtin_add_overflow(whole, integer_of(x, "sum"), &whole))
      throw render_error("sum: the result does not fit 64 bits");
  }
  return exact ? value(whole) : value(real);
}

inline value to_integer(const value& v, call_arguments& a, services&) {
  if (const std::string* s = v.text()) {
    const std::string digits(strip(*s, nullptr, true, true));
    char* end = nullptr;
    const long long x = std::strtoll(digits.c_str(), &end, 10);
    if (!digits.empty() && *end == '\0') return std::int64_t{x};
    const double d = std::strtod(digits.c_str(), &end);
    if (!digits.empty() && *end == '\0' && std::abs(d) < 9e18) return static_cast<std::int64_t>(d);
  } else if (v.is_number() && std::abs(v.real()) < 9e18) {
    return v.integer() ? v : value(static_cast<std::int64_t>(v.real()));
  }
  const value* otherwise = a.find(0, "default");
  return otherwise == nullptr ? value(0) : *otherwise;
}

inline value to_real(const value& v, call_arguments& a, services&) {
  if (v.is_number()) return v.real();
  if (const std::string* s = v.text()) {
    const std::string digits(strip(*s, nullptr, true, true));
    char* end = nullptr;
    const double x = std::strtod(digits.c_str(), &end);
    if (!digits.empty() && *end == '\0') return x;
  }
  const value* otherwise = a.find(0, "default");
  return otherwise == nullptr ? value(0.0) : *otherwise;
}

inline value round(const value& v, call_arguments& a, services&) {
  a.check(2, {"precision", "method"});
  if (!v.is_number()) throw render_error("round: expected a number, found " + std::string(v.type_name()));
  const value* precision = a.find(0, "precision");
  if (a.find(1, "method") != nullptr) throw render_error("round(method) is not offered");
  const auto digits =
      static_cast<int>(precision == nullptr ? 0 : std::clamp<std::int64_t>(integer_of(*precision, "round"), 0, 20));
  char text[400];
  std::snprintf(text, sizeof text, "%.*f", digits, v.real());
  return std::strtod(text, nullptr);
}

inline value indent(const value& v, call_arguments& a, services& run) {
  a.check(3, {"width", "first", "blank"});
  const value* width = a.find(0, "width");
  std::string space = "    ";
  if (width != nullptr && width->text())
    space = *width->text();
  else if (width != nullptr)
    space.assign(static_cast<std::size_t>(std::clamp<std::int64_t>(integer_of(*width, "indent"), 0, 1000)), ' ');
  const bool blank = flag(a, 2, "blank", false);
  const std::string text = to_text(v);
  std::string out;
  std::size_t begin = 0;
  for (bool first = true; begin <= text.size(); first = false) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const bool empty = end == begin;
    if (!first) out += '\n';
    if (first ? flag(a, 1, "first", false) : blank || !empty) out += space;
    out.append(text, begin, end - begin);
    run.charge(space.size());
    begin = end + 1;
  }
  run.charge(out.size());
  return out;
}

inline value escape(const value& v, call_arguments&, services& run) {
  std::string out;
  for (const char c : to_text(v)) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '\'')
      out += "&#39;";
    else if (c == '"')
      out += "&#34;";
    else
      out += c;
  }
  run.charge(out.size());
  return out;
}

inline value length(const value& x, call_arguments&, services&) {
  if (x.is_undefined()) return 0;
  if (x.text()) return static_cast<std::int64_t>(count_characters(*x.text()));
  if (x.items()) return static_cast<std::int64_t>(x.items()->size());
  if (x.as<value::dictionary_pointer>()) return static_cast<std::int64_t>(x.members()->entries.size());
  throw render_error("length: a " + std::string(x.type_name()) + " has none");
}

inline value otherwise(const value& x, call_arguments& args, services&) {
  args.check(2, {"default_value", "boolean"});
  const value* fallback = args.find(0, "default_value");
  const bool missing = x.is_undefined() || (flag(args, 1, "boolean", false) && !x.truth());
  return !missing ? x : fallback == nullptr ? value("") : *fallback;
}

inline value written(const value& x, call_arguments&, services&) { return to_text(x); }

inline value trim(const value& x, call_arguments& args, services&) {
  const value* set = args.find(0, "chars");
  return strip(to_text(x), set == nullptr ? nullptr : set->text(), true, true);
}

template <bool First>
value end_of(const value& x, call_arguments&, services& run) {
  const auto items = elements_of(x, run);
  if (items->empty()) return undefined{First ? "the first of nothing" : "the last of nothing"};
  return First ? items->front() : items->back();
}

inline value items_of(const value& x, call_arguments&, services&) {
  if (x.is_undefined()) return value::list{};
  if (!x.as<value::dictionary_pointer>())
    throw render_error("items: expected a dict, found " + std::string(x.type_name()));
  return pairs_of(*x.members());
}

inline value reverse(const value& x, call_arguments&, services& run) {
  const auto items = elements_of(x, run);
  if (!x.text()) return value::list(items->rbegin(), items->rend());
  std::string out;
  for (auto c = items->rbegin(); c != items->rend(); ++c) out += *c->text();
  return out;
}

inline value with_replacements(const value& x, call_arguments& args, services& run) {
  const value* count = args.find(2, "count");
  std::string out = replace(to_text(x), to_text(args.get(0, "old")), to_text(args.get(1, "new")),
                            count == nullptr || count->is_none() ? -1 : integer_of(*count, "replace"));
  run.charge(out.size());
  return out;
}

inline value magnitude(const value& x, call_arguments&, services&) {
  if (x.as<double>()) return std::abs(x.real());
  return static_cast<std::int64_t>(std::abs(integer_of(x, "abs")));
}

}  // namespace detail

/// All filters by name, those of jinja2 that templates use; tojson as transformers has it.
inline const std::map<std::string_view, filter_function>& filters() {
  using v = const value&;
  using a = call_arguments&;
  using s = services&;
  static const std::map<std::string_view, filter_function> table = {
      {"trim", detail::trim},
      {"tojson", detail::tojson},
      {"length", detail::length},
      {"count", detail::length},
      {"join", detail::join},
      {"upper", [](v x, a, s) -> value { return change_case(to_text(x), true); }},
      {"lower", [](v x, a, s) -> value { return change_case(to_text(x), false); }},
      {"capitalize", [](v x, a, s) -> value { return capitalize(to_text(x), false); }},
      {"title", [](v x, a, s) -> value { return capitalize(to_text(x), true); }},
      {"first", detail::end_of<true>},
      {"last", detail::end_of<false>},
      {"select", detail::chosen<false, true>},
      {"reject", detail::chosen<false, false>},
      {"selectattr", detail::chosen<true, true>},
      {"rejectattr", detail::chosen<true, false>},
      {"map", detail::map},
      {"default", detail::otherwise},
      {"d", detail::otherwise},
      {"string", detail::written},
      {"safe", detail::written},
      {"items", detail::items_of},
      {"list", [](v x, a, s run) -> value { return value::list(*elements_of(x, run)); }},
      {"reverse", detail::reverse},
      {"replace", detail::with_replacements},
      {"sort", detail::sort},
      {"dictsort", detail::dictsort},
      {"unique", detail::unique},
      {"max", detail::extreme<true>},
      {"min", detail::extreme<false>},
      {"sum", detail::sum},
      {"abs", detail::magnitude},
      {"int", detail::to_integer},
      {"float", detail::to_real},
      {"round", detail::round},
      {"indent", detail::indent},
      {"escape", detail::escape},
      {"e", detail::escape},
      {"attr", [](v x, a args, s) -> value { return attribute_of(x, text_of(args.get(0, "name"), "attr")); }},
  };
  return table;
}

}  // namespace text::jinja
RLCORE_END
