// The methods of Python's str, dict and list that templates call.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/jinja/value.hpp"
#include "rlcore/text/jinja/value_text.hpp"

RLCORE_BEGIN
namespace text::jinja {

/// The result of a method.
using method_function = value (*)(const value&, call_arguments&, services&);

namespace detail {

value::list texts(std::vector<std::string> parts, services& run);

template <bool left, bool right>
value stripped(const value& self, call_arguments& a, services& run) {
  a.check(1, {"chars"});
  const value* set = a.find(0, "chars");
  if (set != nullptr && !set->is_none()) text_of(*set, a.callee);
  const std::size_t set_size = set == nullptr || set->is_none() ? 0 : set->text()->size();
  run.charge(self.text()->size() * (1 + set_size / 64));
  return strip(*self.text(), set == nullptr ? nullptr : set->text(), left, right);
}

/// startswith, endswith: one text or a list of texts.
template <bool start>
value bounded(const value& self, call_arguments& a, services&) {
  a.check(1);
  const std::string_view text = *self.text();
  const auto one = [&](const value& part) {
    return start ? text.starts_with(text_of(part, a.callee)) : text.ends_with(text_of(part, a.callee));
  };
  const value& parts = a.get(0, "prefix");
  if (!parts.items()) return one(parts);
  return std::any_of(parts.items()->begin(), parts.items()->end(), one);
}

template <bool from_end>
value pieces(const value& self, call_arguments& a, services& run) {
  a.check(2, {"sep", "maxsplit"});
  const value* separator = a.find(0, "sep");
  const value* limit = a.find(1, "maxsplit");
  const std::int64_t most = limit == nullptr ? -1 : integer_of(*limit, a.callee);
  const bool space = separator == nullptr || separator->is_none();
  run.charge(self.text()->size());
  if (!space && text_of(*separator, a.callee).empty()) throw render_error("split: the separator is empty");
  if (from_end && !space) run.charge(self.text()->size() / 64 * separator->text()->size());
  if (from_end && !space) return texts(split_from_end(*self.text(), *separator->text(), most), run);
  if (from_end && most >= 0) throw render_error("rsplit at white space with a limit is not offered");
  return texts(split(*self.text(), space ? nullptr : separator->text(), most), run);
}

template <bool last>
value position(const value& self, call_arguments& a, services& run) {
  a.check(1);
  const std::string& s = *self.text();
  const std::string& part = text_of(a.get(0, "sub"), a.callee);
  run.charge(last ? s.size() * (1 + part.size() / 64) : s.size());
  const std::size_t at = last ? s.rfind(part) : find_text(s, part);
  if (at == s.npos) return -1;
  return static_cast<std::int64_t>(count_characters(std::string_view(s).substr(0, at)));
}

value replaced(const value& self, call_arguments& a, services& run);

value counted(const value& self, call_arguments& a, services& run);

value joined(const value& self, call_arguments& a, services& run);

value lines(const value& self, call_arguments& a, services& run);

/// Whether the text is not empty and every character has one of the categories of Unicode.
template <class Accepted>
bool every_character(const std::string& s, Accepted accepted) {
  const auto parts = characters(s);
  return !parts.empty() && std::all_of(parts.begin(), parts.end(), accepted);
}
inline bool is_digit(std::string_view c) { return utf8proc_category(code_point(c)) == UTF8PROC_CATEGORY_ND; }
inline bool is_letter(std::string_view c) {
  const auto category = utf8proc_category(code_point(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

/// str.format with {}, {0} and {name}.
value formatted(const value& self, call_arguments& a, services& run);

}  // namespace detail

/// The methods of str.
const std::map<std::string_view, method_function>& text_methods();

/// The methods of dict.
const std::map<std::string_view, method_function>& dictionary_methods();

/// The methods of list.
const std::map<std::string_view, method_function>& list_methods();

/// The methods of a value's type, or nullptr.
inline const std::map<std::string_view, method_function>* methods_of(const value& x) {
  if (x.text()) return &text_methods();
  if (x.items()) return &list_methods();
  return x.as<value::dictionary_pointer>() ? &dictionary_methods() : nullptr;
}
/// Whether the value's type has the method.
inline bool has_method(const value& x, std::string_view name) {
  const auto* table = methods_of(x);
  return table != nullptr && table->contains(name);
}
/// A method that is not called: only its truth value is defined.
inline value method_value(std::string_view name) {
  return std::make_shared<const callable>(callable{std::string(name), nullptr});
}

}  // namespace text::jinja
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text::jinja::detail {

RLCORE_INLINE value::list texts(std::vector<std::string> parts, services& run) {
  value::list out;
  for (std::string& part : parts) {
    run.charge(64 + part.size());
    out.emplace_back(std::move(part));
  }
  return out;
}

RLCORE_INLINE value replaced(const value& self, call_arguments& a, services& run) {
  a.check(3, {"count"});
  const value* count = a.find(2, "count");
  run.charge(self.text()->size());
  std::string out = replace(*self.text(), text_of(a.get(0, "old"), a.callee), text_of(a.get(1, "new"), a.callee),
                            count == nullptr ? -1 : integer_of(*count, a.callee));
  run.charge(out.size());
  return out;
}

RLCORE_INLINE value counted(const value& self, call_arguments& a, services& run) {
  a.check(1);
  const std::string& s = *self.text();
  const std::string& part = text_of(a.get(0, "sub"), a.callee);
  if (part.empty()) return static_cast<std::int64_t>(count_characters(s) + 1);
  run.charge(s.size());
  std::int64_t count = 0;
  for (std::size_t at = find_text(s, part); at != s.npos; at = find_text(s, part, at + part.size())) ++count;
  return count;
}

RLCORE_INLINE value joined(const value& self, call_arguments& a, services& run) {
  a.check(1);
  std::string out;
  bool first = true;
  const auto items = elements_of(a.get(0, "iterable"), run);
  for (const value& item : *items) {
    if (!std::exchange(first, false)) out += *self.text();
    out += text_of(item, "join");
    run.charge(self.text()->size() + 16);
  }
  run.charge(out.size());
  return out;
}

RLCORE_INLINE value lines(const value& self, call_arguments& a, services& run) {
  a.check(1, {"keepends"});
  const bool keep = a.find(0, "keepends") != nullptr && a.find(0, "keepends")->truth();
  std::vector<std::string> out;
  std::string line;
  const auto parts = characters(*self.text());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int32_t code = code_point(parts[i]);
    const bool ends = (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
                      code == 0x2028 || code == 0x2029;
    if (!ends || keep) line += parts[i];
    if (!ends) continue;
    if (code == '\r' && i + 1 < parts.size() && parts[i + 1] == "\n" && (++i, keep)) line += '\n';
    out.push_back(std::exchange(line, {}));
  }
  if (!line.empty()) out.push_back(line);
  return texts(std::move(out), run);
}

RLCORE_INLINE value formatted(const value& self, call_arguments& a, services& run) {
  const std::string& s = *self.text();
  std::string out;
  std::size_t next = 0;
  for (std::size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '{' && s[i] != '}') {
      out += s[i];
      continue;
    }
    if (i + 1 < s.size() && s[i + 1] == s[i]) {
      out += s[i++];
      continue;
    }
    const std::size_t end = s.find('}', i);
    if (s[i] == '}' || end == s.npos) throw render_error("format: a single brace");
    const std::string name = s.substr(i + 1, end - i - 1);
    if (name.find_first_of(".[!:{") != name.npos) throw render_error("format: '{" + name + "}' is not offered");
    const bool number = !name.empty() && name.size() < 6 && name.find_first_not_of("0123456789") == name.npos;
    const std::size_t at = name.empty() ? next++ : number ? static_cast<std::size_t>(std::stoi(name)) : SIZE_MAX;
    const std::size_t before = out.size();
    out += to_text(a.get(at, name));
    run.charge(16 + out.size() - before);
    i = end;
  }
  return out;
}

}  // namespace text::jinja::detail

namespace text::jinja {

RLCORE_INLINE const std::map<std::string_view, method_function>& text_methods() {
  using v = const value&;
  using a = call_arguments&;
  using s = services&;
  static const std::map<std::string_view, method_function> table = {
      {"startswith", detail::bounded<true>},
      {"endswith", detail::bounded<false>},
      {"strip", detail::stripped<true, true>},
      {"lstrip", detail::stripped<true, false>},
      {"rstrip", detail::stripped<false, true>},
      {"split", detail::pieces<false>},
      {"rsplit", detail::pieces<true>},
      {"splitlines", detail::lines},
      {"find", detail::position<false>},
      {"rfind", detail::position<true>},
      {"replace", detail::replaced},
      {"count", detail::counted},
      {"join", detail::joined},
      {"format", detail::formatted},
      {"upper", [](v x, a, s) -> value { return change_case(*x.text(), true); }},
      {"lower", [](v x, a, s) -> value { return change_case(*x.text(), false); }},
      {"capitalize", [](v x, a, s) -> value { return capitalize(*x.text(), false); }},
      {"title", [](v x, a, s) -> value { return capitalize(*x.text(), true); }},
      {"isdigit", [](v x, a, s) -> value { return detail::every_character(*x.text(), detail::is_digit); }},
      {"isalpha", [](v x, a, s) -> value { return detail::every_character(*x.text(), detail::is_letter); }},
      {"isspace", [](v x, a, s) -> value { return detail::every_character(*x.text(), is_space); }},
      {"isalnum",
       [](v x, a, s) -> value {
         return detail::every_character(*x.text(),
                                        [](std::string_view c) { return detail::is_digit(c) || detail::is_letter(c); });
       }},
      {"removeprefix",
       [](v x, a args, s) -> value {
         const std::string& part = text_of(args.get(0, "prefix"), args.callee);
         return x.text()->starts_with(part) ? value(x.text()->substr(part.size())) : x;
       }},
      {"removesuffix",
       [](v x, a args, s) -> value {
         const std::string& part = text_of(args.get(0, "suffix"), args.callee);
         return x.text()->ends_with(part) ? value(x.text()->substr(0, x.text()->size() - part.size())) : x;
       }},
  };
  return table;
}

RLCORE_INLINE const std::map<std::string_view, method_function>& dictionary_methods() {
  using v = const value&;
  using a = call_arguments&;
  using s = services&;
  static const std::map<std::string_view, method_function> table = {
      {"get",
       [](v x, a args, s) -> value {
         args.check(2);
         const value& key = args.get(0, "key");
         const value* found = key.text() ? x.members()->find(*key.text()) : nullptr;
         const value* otherwise = args.find(1, "default");
         return found != nullptr ? *found : otherwise != nullptr ? *otherwise : value();
       }},
      {"items", [](v x, a, s) -> value { return pairs_of(*x.members()); }},
      {"keys", [](v x, a, s run) -> value { return value::list(*elements_of(x, run)); }},
      {"values",
       [](v x, a, s) -> value {
         value::list out;
         for (const auto& [key, item] : x.members()->entries) out.push_back(item);
         return out;
       }},
      {"copy", [](v x, a, s) -> value { return x; }},
  };
  return table;
}

RLCORE_INLINE const std::map<std::string_view, method_function>& list_methods() {
  using v = const value&;
  using a = call_arguments&;
  using s = services&;
  static const std::map<std::string_view, method_function> table = {
      {"index",
       [](v x, a args, s) -> value {
         for (std::size_t i = 0; i < x.items()->size(); ++i)
           if (equal((*x.items())[i], args.get(0, "value"))) return static_cast<std::int64_t>(i);
         throw render_error("index: the list has no such element");
       }},
      {"count",
       [](v x, a args, s) -> value {
         const auto& items = *x.items();
         return static_cast<std::int64_t>(std::count_if(
             items.begin(), items.end(), [&](const value& item) { return equal(item, args.get(0, "value")); }));
       }},
      {"copy", [](v x, a, s) -> value { return x; }},
  };
  return table;
}

}  // namespace text::jinja
RLCORE_END
#endif
