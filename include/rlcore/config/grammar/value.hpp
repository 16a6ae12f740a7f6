// A setting's value: null, bool, integer, real, text, list or map, with the exact text it is printed as.
#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace trainer {

/// Shortest decimal that reads back as `x`, in the spelling of Python's repr: 1.0, 0.001, 1e-06, 1e+16, inf, nan.
std::string real_text(double x);

struct member;

/// One node of a configuration. Maps keep the order of insertion.
struct value {
  using list = std::vector<value>;
  using map = std::vector<member>;
  std::variant<std::monostate, bool, std::int64_t, double, std::string, list, map> held;

  value();
  value(bool x);              ///< a bool
  value(std::int64_t x);      ///< an integer
  value(int x);               ///< an integer
  value(double x);            ///< a real
  value(std::string x);       ///< a text
  value(std::string_view x);  ///< a text
  value(const char* x);       ///< a text
  value(list x);              ///< a list
  value(map x);               ///< a map

  template <class T>
  const T* as() const noexcept {
    return std::get_if<T>(&held);
  }
  template <class T>
  T* as() noexcept {
    return std::get_if<T>(&held);
  }
  bool is_null() const noexcept { return held.index() == 0; }
  bool is_map() const noexcept { return as<map>() != nullptr; }
  bool is_list() const noexcept { return as<list>() != nullptr; }
  bool is_scalar() const noexcept { return !is_map() && !is_list(); }
  /// The member called `name`, or nullptr if it does not exist or this is not a map.
  const value* find(std::string_view name) const noexcept;
  /// The same, to be changed.
  value* find(std::string_view name) noexcept;
  friend bool operator==(const value& a, const value& b);
};

/// One entry of a map.
struct member {
  std::string name;
  value item;
  friend bool operator==(const member& a, const member& b) { return a.name == b.name && a.item == b.item; }
};

// Defined here because a map needs the complete member.
inline value::value() = default;
inline value::value(bool x) : held(x) {}
inline value::value(std::int64_t x) : held(x) {}
inline value::value(int x) : held(std::int64_t{x}) {}
inline value::value(double x) : held(x) {}
inline value::value(std::string x) : held(std::move(x)) {}
inline value::value(std::string_view x) : held(std::string(x)) {}
inline value::value(const char* x) : held(std::string(x)) {}
inline value::value(list x) : held(std::move(x)) {}
inline value::value(map x) : held(std::move(x)) {}
/// True for values of one kind with the same content: 1 is not 1.0, and maps have the same order.
inline bool operator==(const value& a, const value& b) { return a.held == b.held; }

inline value* value::find(std::string_view name) noexcept {
  return const_cast<value*>(static_cast<const value*>(this)->find(name));
}

/// A scalar as Python's str() prints it: None, True, 3, 1e-06, text. Empty for a list or a map.
std::string scalar_text(const value& v);

/// The kind of the value in words, for messages.
inline std::string_view kind_of(const value& v) noexcept {
  constexpr std::string_view names[] = {"null", "a bool", "an integer", "a number", "a text", "a list", "a map"};
  return names[v.held.index()];
}

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE std::string real_text(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::scientific).ptr;
  std::string_view written(buffer, static_cast<std::size_t>(end - buffer));
  std::string sign;
  if (written.front() == '-') sign = "-", written.remove_prefix(1);
  const std::size_t mark = written.find('e');
  int exponent = 0;
  std::from_chars(written.data() + mark + (written[mark + 1] == '+' ? 2 : 1), written.data() + written.size(),
                  exponent);
  std::string digits(1, written.front());
  if (mark > 2) digits += written.substr(2, mark - 2);
  if (exponent < -4 || exponent >= 16) {
    const std::string power = std::to_string(exponent < 0 ? -exponent : exponent);
    return sign + digits.substr(0, 1) + (digits.size() > 1 ? "." + digits.substr(1) : "") +
           (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() < whole) digits.append(whole - digits.size(), '0');
  return sign + digits.substr(0, whole) + "." + (digits.size() > whole ? digits.substr(whole) : "0");
}

RLCORE_INLINE const value* value::find(std::string_view name) const noexcept {
  if (const map* members = as<map>())
    for (const member& m : *members)
      if (m.name == name) return &m.item;
  return nullptr;
}

RLCORE_INLINE std::string scalar_text(const value& v) {
  if (v.is_null()) return "None";
  if (const bool* x = v.as<bool>()) return *x ? "True" : "False";
  if (const std::int64_t* x = v.as<std::int64_t>()) return std::to_string(*x);
  if (const double* x = v.as<double>()) return real_text(*x);
  if (const std::string* x = v.as<std::string>()) return *x;
  return {};
}

}  // namespace trainer
RLCORE_END
#endif
