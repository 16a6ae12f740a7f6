// Validation of an option value: type, range, allowed words. Messages name the key, the value and the expectation.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/config/grammar/value.hpp"
#include "rlcore/config/registry.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"

RLCORE_BEGIN
namespace train::detail {

/// a * b, both at least 0. Throws config_error, beginning with `name`, where 64 bits do not hold it.
inline std::int64_t product(std::int64_t a, std::int64_t b, const std::string& name) {
  if (a > 0 && b > std::numeric_limits<std::int64_t>::max() / a)
    throw config_error(name + ": " + std::to_string(a) + " x " + std::to_string(b) +
                       " is more than a number of 64 bits holds");
  return a * b;
}

}  // namespace train::detail

namespace train {

/// Splits "a|b|c" into words; `between` is the separator.
std::vector<std::string> split_words(std::string_view words, char between = '|');

/// A value on one line: scalars as Python prints them, lists and maps in the spelling of an override.
std::string inline_text(const value& v);

/// Description of a key type, for messages.
std::string_view type_words(key_type type) noexcept;

namespace detail {

[[noreturn]] inline void wrong(const key& k, const value& v, const std::string& expected) {
  throw config_error(std::string(k.name) + "=" + inline_text(v) + ": expected " + expected + " (" +
                     std::string(k.meaning) + ")");
}

void check_number(const key& k, const value& v, double x);

value two_reals(const key& k, const value& v, const value::list& items);

void check_text(const key& k, const value& v, const std::string& text);

}  // namespace detail

/// The value as its key stores it: an integer for a real key becomes real, a number for a text key becomes text.
/// Throws config_error.
value check_value(const key& k, const value& v);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::vector<std::string> split_words(std::string_view words, char between) {
  std::vector<std::string> out;
  while (!words.empty()) {
    const std::size_t end = words.find(between);
    out.emplace_back(words.substr(0, end));
    words.remove_prefix(end == words.npos ? words.size() : end + 1);
  }
  return out;
}

RLCORE_INLINE std::string inline_text(const value& v) {
  if (v.is_null()) return "null";
  if (v.is_scalar()) return scalar_text(v);
  std::string out;
  if (const auto* items = v.as<value::list>()) {
    for (const value& item : *items) out += (out.empty() ? "" : ",") + inline_text(item);
    return "[" + out + "]";
  }
  for (const member& m : *v.as<value::map>()) out += (out.empty() ? "" : ",") + m.name + ":" + inline_text(m.item);
  return "{" + out + "}";
}

RLCORE_INLINE std::string_view type_words(key_type type) noexcept {
  constexpr std::string_view words[] = {
      "True or False", "an integer",  "a number",        "a text", "a text or a list of texts",
      "two numbers",   "a map {a:b}", "any single value"};
  return words[static_cast<int>(type)];
}

}  // namespace train

namespace train::detail {

/// Is it one of "a|b|c"?
RLCORE_INLINE bool is_word(std::string_view text, std::string_view words) {
  if (text.empty()) return words.starts_with('|') || words.find("||") != words.npos;
  if (text.find('|') != text.npos) return false;
  for (std::size_t at = words.find(text); at != words.npos; at = words.find(text, at + 1)) {
    const std::size_t end = at + text.size();
    if ((at == 0 || words[at - 1] == '|') && (end == words.size() || words[end] == '|')) return true;
  }
  return false;
}

RLCORE_INLINE void check_number(const key& k, const value& v, double x) {
  const auto bound = [](double b) {
    return b == std::floor(b) ? std::to_string(static_cast<long long>(b)) : real_text(b);
  };
  const std::string kind(type_words(k.type));
  if (std::isnan(x)) wrong(k, v, kind);
  const bool low = std::isfinite(k.limits.at_least), finite = k.limits.at_most == std::numeric_limits<double>::max();
  const bool high = std::isfinite(k.limits.at_most) && !finite;
  if (x < k.limits.at_least || x > k.limits.at_most || (k.limits.below && x == k.limits.at_most))
    wrong(k, v,
          kind +
              (low && high ? " from " + bound(k.limits.at_least) + (k.limits.below ? " to below " : " to ") +
                                 bound(k.limits.at_most)
               : low ? (finite ? " >= " + bound(k.limits.at_least) + ", and finite" : " >= " + bound(k.limits.at_least))
                     : " <= " + bound(k.limits.at_most)));
}

RLCORE_INLINE value two_reals(const key& k, const value& v, const value::list& items) {
  value::list out;
  for (const value& item : items) {
    const auto* whole = item.as<std::int64_t>();
    const auto* real = item.as<double>();
    if (whole == nullptr && real == nullptr) wrong(k, v, std::string(type_words(k.type)));
    const double x = whole != nullptr ? static_cast<double>(*whole) : *real;
    check_number(k, v, x);
    out.push_back(value(x));
  }
  return value(std::move(out));
}

RLCORE_INLINE void check_text(const key& k, const value& v, const std::string& text) {
  if (text.starts_with("hdfs://")) wrong(k, v, "a local path; hdfs:// is not read, copy the files first");
  if (static_cast<double>(text.size()) < k.limits.at_least) wrong(k, v, "a text that is not empty");
  if (k.limits.choices.empty() || is_word(text, k.limits.choices)) return;
  const auto choices = split_words(k.limits.choices), later = split_words(k.limits.later);
  std::string list;
  for (const std::string& word : choices) list += (list.empty() ? "" : ", ") + word;
  for (const std::string& word : later)
    if (word == text)
      throw config_error(std::string(k.name) + "=" + text + " is not in this build yet; it has " + list);
  auto known = choices;
  known.insert(known.end(), later.begin(), later.end());
  throw config_error(std::string(k.name) + "=" + text + ": expected " + list + did_you_mean(text, known));
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE value check_value(const key& k, const value& v) {
  if (v.is_null()) {
    if (k.fallback == "null" || k.type == key_type::any) return v;
    if (k.type == key_type::dictionary) return value(value::map{});
    detail::wrong(k, v, std::string(type_words(k.type)));
  }
  switch (k.type) {
    case key_type::boolean:
      if (v.as<bool>() != nullptr) return v;
      break;
    case key_type::integer:
      if (const auto* x = v.as<std::int64_t>()) {
        detail::check_number(k, v, static_cast<double>(*x));
        return v;
      }
      break;
    case key_type::real: {
      const auto* whole = v.as<std::int64_t>();
      const auto* real = v.as<double>();
      if (whole == nullptr && real == nullptr) break;
      const double x = whole != nullptr ? static_cast<double>(*whole) : *real;
      detail::check_number(k, v, x);
      return value(x);
    }
    case key_type::text:
      if (!v.is_scalar()) break;
      detail::check_text(k, v, scalar_text(v));
      return value(scalar_text(v));
    case key_type::texts: {
      if (v.is_map()) break;
      if (v.is_scalar()) {
        detail::check_text(k, v, scalar_text(v));
        return value(scalar_text(v));
      }
      value::list items;
      for (const value& item : *v.as<value::list>()) {
        if (!item.is_scalar() || item.is_null()) detail::wrong(k, v, std::string(type_words(k.type)));
        detail::check_text(k, v, scalar_text(item));
        items.push_back(value(scalar_text(item)));
      }
      return value(std::move(items));
    }
    case key_type::two_reals:
      if (const auto* items = v.as<value::list>(); items != nullptr && items->size() == 2)
        return detail::two_reals(k, v, *items);
      break;
    case key_type::dictionary:
      if (v.is_map()) return v;
      break;
    case key_type::any:
      return v;
  }
  detail::wrong(k, v, std::string(type_words(k.type)));
}

}  // namespace train
RLCORE_END
#endif
