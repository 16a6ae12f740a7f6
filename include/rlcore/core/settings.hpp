// Validation of settings: invalid values throw std::invalid_argument with the setting's name, one line of code per
// setting.
//
//   constexpr void check_settings() const {
//     check_setting(name, "low", low, setting::fraction);
//     check_setting(name, "high", high, setting::width);
//   }
//
// Every algorithm calls this member of its pieces, its advantage and its aggregation.
#pragma once

#include <charconv>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// The valid range of a setting, with its wording for messages. NaN is never valid.
struct setting_range {
  double low, high;
  bool with_low, with_high;
  const char* words;
  /// Whether the setting may be x.
  constexpr bool holds(double x) const noexcept {
    return (with_low ? x >= low : x > low) && (with_high ? x <= high : x < high);
  }
};

namespace setting {
inline constexpr double unlimited = std::numeric_limits<double>::infinity();
inline constexpr setting_range number{-unlimited, unlimited, true, true, "a number"};
inline constexpr setting_range finite{-unlimited, unlimited, false, false, "a finite number"};
inline constexpr setting_range fraction{0, 1, true, true, "a number in [0, 1]"};
inline constexpr setting_range below_1{0, 1, true, false, "a number in [0, 1)"};
inline constexpr setting_range below_half{0, 0.5, true, false, "a number in [0, 0.5)"};
/// A width to one side; infinity means no limit.
inline constexpr setting_range width{0, unlimited, true, true, "a number of at least 0"};
inline constexpr setting_range coefficient{0, unlimited, true, false, "a finite number of at least 0"};
inline constexpr setting_range positive{0, unlimited, false, false, "a finite number above 0"};
/// A bound of ratios; infinity means none.
inline constexpr setting_range bound{0, unlimited, false, true, "a number above 0"};
inline constexpr setting_range bound_above_1{1, unlimited, false, true, "a number above 1"};
}  // namespace setting

namespace detail {

/// The shortest decimal text that parses back to x.
RLCORE_NOINLINE inline std::string shortest(double x) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, x).ptr};
}
[[noreturn]] RLCORE_NOINLINE inline void refuse_setting(std::string_view owner, const char* name, double value,
                                                        const std::string& expected) {
  throw std::invalid_argument("rlcore: " + std::string(owner) + ": " + name + " = " + shortest(value) + ", expected " +
                              expected);
}
[[noreturn]] RLCORE_NOINLINE inline void refuse_order(std::string_view owner, const char* name, double value,
                                                      const char* other, double limit) {
  refuse_setting(owner, name, value, std::string("a number of at most ") + other + " = " + shortest(limit));
}

}  // namespace detail

/// Throws std::invalid_argument: "rlcore: grpo: clip_low = -0.2, expected a number in [0, 1]".
constexpr void check_setting(std::string_view owner, const char* name, double value, const setting_range& range) {
  if (!range.holds(value)) detail::refuse_setting(owner, name, value, range.words);
}
/// For two settings; the first must not exceed the second.
constexpr void check_order(std::string_view owner, const char* name, double value, const char* other, double limit) {
  if (!(value <= limit)) detail::refuse_order(owner, name, value, other, limit);
}

namespace detail {

/// The widths of a clip around a ratio of 1: below, down to a ratio of 0, and above.
constexpr void check_clip(std::string_view owner, double low, double high) {
  check_setting(owner, "clip_low", low, setting::fraction);
  check_setting(owner, "clip_high", high, setting::width);
}

/// Calls check_settings() of a part of an algorithm and of its nested parts: the pieces of a sum, a wrapped piece, a
/// link.
template <class Part>
constexpr void check_part(const Part& part) {
  if constexpr (requires { part.check_settings(); }) part.check_settings();
  if constexpr (requires { part.first; }) check_part(part.first);
  if constexpr (requires { part.rest; }) check_part(part.rest);
  if constexpr (requires { sizeof(part.piece); }) check_part(part.piece);
  if constexpr (requires { sizeof(part.node); }) check_part(part.node);
  if constexpr (requires { sizeof(part.nodes); }) check_part(part.nodes);
  if constexpr (requires { sizeof(part.slope); }) check_part(part.slope);
  if constexpr (requires { sizeof(part.value); }) check_part(part.value);
  if constexpr (requires { part.divergence; }) check_part(part.divergence);
  if constexpr (requires { part.link; }) check_part(part.link);
}

}  // namespace detail
RLCORE_ALGORITHM_END
RLCORE_END
