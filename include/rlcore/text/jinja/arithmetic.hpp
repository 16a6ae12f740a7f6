// The operators of Python between two values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/elementary.hpp"
#include "rlcore/text/jinja/builtins.hpp"
#include "rlcore/text/jinja/value.hpp"
#include "rlcore/text/jinja/value_text.hpp"

RLCORE_BEGIN
namespace text::jinja {

namespace detail {

[[noreturn]] void throw_operator(std::string_view sign, const value& a, const value& b);

/// Floor division and remainder, whose sign is that of the divisor.
value divided(std::int64_t a, std::int64_t b, bool remainder);

value whole_arithmetic(std::string_view sign, std::int64_t a, std::int64_t b);

value real_arithmetic(std::string_view sign, double a, double b);

}  // namespace detail

/// a + b and so on. Throws render_error where Python would, and for integers beyond 64 bits.
value arithmetic(std::string_view sign, const value& a, const value& b, services& run);

/// -x. Throws render_error unless x is a number.
inline value negated(const value& x) {
  if (const auto* d = x.as<double>()) return -*d;
  return detail::whole_arithmetic("-", 0, integer_of(x, "-"));
}

/// One comparison of a chain: ==, !=, <, <=, >, >=, in, not in.
bool compare(std::string_view sign, const value& a, const value& b, services& run);

/// x[start:stop:step] for lists and texts. Throws render_error for anything else.
value slice_of(const value& x, const value bounds[3], services& run);

}  // namespace text::jinja
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text::jinja::detail {

RLCORE_INLINE void throw_operator(std::string_view sign, const value& a, const value& b) {
  for (const value* v : {&a, &b})
    if (v->is_undefined()) throw_undefined(*v, "it cannot stand beside '" + std::string(sign) + "'");
  throw render_error("'" + std::string(sign) + "' is not defined between " + std::string(a.type_name()) + " and " +
                     std::string(b.type_name()));
}

RLCORE_INLINE value divided(std::int64_t a, std::int64_t b, bool remainder) {
  if (b == 0) throw render_error("division by zero");
  if (b == -1) {
    if (a == INT64_MIN && !remainder) throw render_error("a result that does not fit 64 bits");
    return remainder ? value(0) : value(-a);
  }
  std::int64_t quotient = a / b, rest = a % b;
  if (rest != 0 && (rest < 0) != (b < 0)) --quotient, rest += b;
  return remainder ? rest : quotient;
}

RLCORE_INLINE value whole_arithmetic(std::string_view sign, std::int64_t a, std::int64_t b) {
  std::int64_t x = 0;
  bool overflow = false;
  if (sign == "+") {
    overflow = __builtin_add_overflow(a, b, &x);
  } else if (sign == "-") {
    overflow = __builtin_sub_overflow(a, b, &x);
  } else if (sign == "*") {
    overflow = __builtin_mul_overflow(a, b, &x);
  } else if (sign == "/") {
    if (b == 0) throw render_error("division by zero");
    return static_cast<double>(a) / static_cast<double>(b);
  } else if (sign == "//" || sign == "%") {
    return divided(a, b, sign == "%");
  } else {
    if (b < 0) return elementary::pow(static_cast<double>(a), static_cast<double>(b));
    x = 1;
    for (std::int64_t i = 0; i < b && !overflow && (i < 64 || (a != 0 && a != 1 && a != -1)); ++i)
      overflow = __builtin_mul_overflow(x, a, &x);
    if (b >= 64 && a == -1) x = b % 2 == 0 ? 1 : -1;
  }
  if (overflow) throw render_error("a result that does not fit 64 bits");
  return x;
}

RLCORE_INLINE value real_arithmetic(std::string_view sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "**") return elementary::pow(a, b);
  if (b == 0) throw render_error("division by zero");
  if (sign == "/") return a / b;
  const double floor = std::floor(a / b);
  return sign == "//" ? floor : a - floor * b;
}

}  // namespace text::jinja::detail

namespace text::jinja {

RLCORE_INLINE value arithmetic(std::string_view sign, const value& a, const value& b, services& run) {
  if (a.is_number() && b.is_number()) {
    if (a.as<double>() || b.as<double>()) return detail::real_arithmetic(sign, a.real(), b.real());
    return detail::whole_arithmetic(sign, integer_of(a, sign), integer_of(b, sign));
  }
  if (sign == "+" && a.text() && b.text()) {
    run.charge(a.text()->size() + b.text()->size());
    return *a.text() + *b.text();
  }
  if (sign == "+" && a.items() && b.items()) {
    run.charge(64 * (a.items()->size() + b.items()->size()));
    value::list all = *a.items();
    all.insert(all.end(), b.items()->begin(), b.items()->end());
    return all;
  }
  if (sign == "*" && (a.text() || a.items()) && b.integer()) {
    const auto count = static_cast<std::size_t>(std::clamp<std::int64_t>(*b.integer(), 0, 1 << 28));
    const std::size_t size = a.text() ? a.text()->size() : 16 * a.items()->size();
    run.charge(size == 0 ? 0 : std::min<std::size_t>(count, SIZE_MAX / size / 2) * size);
    std::string text;
    value::list items;
    for (std::size_t i = 0; i < count && size > 0; ++i) {
      if (a.text())
        text += *a.text();
      else
        items.insert(items.end(), a.items()->begin(), a.items()->end());
    }
    return a.text() ? value(std::move(text)) : value(std::move(items));
  }
  if (sign == "*" && a.integer() && (b.text() || b.items())) return arithmetic(sign, b, a, run);
  detail::throw_operator(sign, a, b);
}

RLCORE_INLINE bool compare(std::string_view sign, const value& a, const value& b, services& run) {
  const bool searches = sign == "in" || sign == "not in";
  run.charge(searches ? a.weight() + b.weight() : std::min(a.weight(), b.weight()));
  if (sign == "==") return equal(a, b);
  if (sign == "!=") return !equal(a, b);
  if (sign == "in") return contains(b, a, run);
  if (sign == "not in") return !contains(b, a, run);
  for (const value* v : {&a, &b})
    if (v->is_undefined()) detail::throw_operator(sign, a, b);
  if (a.is_number() && b.is_number()) {  // NaN: no comparison holds
    if (sign == "<=") return less(a, b) || equal(a, b);
    if (sign == ">=") return less(b, a) || equal(a, b);
  }
  if (sign == "<") return less(a, b);
  if (sign == ">") return less(b, a);
  return sign == "<=" ? !less(b, a) : !less(a, b);
}

RLCORE_INLINE value slice_of(const value& x, const value bounds[3], services& run) {
  const std::int64_t* places[3] = {};
  for (int i = 0; i < 3; ++i) {
    if (!bounds[i].is_none() && !bounds[i].integer())
      throw render_error("a slice: expected integers, found " + std::string(bounds[i].type_name()));
    places[i] = bounds[i].integer();
  }
  const std::int64_t step = places[2] == nullptr ? 1 : *places[2];
  if (step == 0) throw render_error("a slice with step 0");
  if (x.text()) {
    run.charge(16 * x.text()->size());
    const auto parts = characters(*x.text());
    std::string out;
    for (const std::size_t i : slice_positions(parts.size(), places[0], places[1], step)) out += parts[i];
    return out;
  }
  if (x.is_undefined()) detail::throw_undefined(x, "it has no elements");
  if (!x.items()) throw render_error("a " + std::string(x.type_name()) + " has no slices");
  run.charge(16 * x.items()->size());
  value::list out;
  for (const std::size_t i : slice_positions(x.items()->size(), places[0], places[1], step))
    out.push_back((*x.items())[i]);
  return out;
}

}  // namespace text::jinja
RLCORE_END
#endif
