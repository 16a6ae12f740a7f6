// A key or flag of a command line, and a help topic.
#pragma once

#include <limits>
#include <string_view>

#include "rlcore/config/grammar/value.hpp"
#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace train {

/// Value types.
enum class key_type {
  boolean,
  integer,
  real,        ///< an integer is taken as well
  text,        ///< numbers keep their spelling
  texts,       ///< a text or a list of texts
  two_reals,   ///< a list of two numbers, each within the limits
  dictionary,  ///< free-form map: every member name is allowed, with or without +
  any
};

/// How this build treats a key.
enum class disposition {
  honoured,  ///< implemented
  accepted,  ///< checked and recorded; no effect on this device or in this design
  fixed,     ///< only the default is supported; any other value is rejected
  off,       ///< a map of an unsupported part: its `enable` or `enabled` must stay False, the rest is not used
  unused     ///< known to verl or OpenRLHF, not used by this program
};

/// Allowed words and numbers of a key beyond its type.
struct key_limits {
  std::string_view choices = {};                               ///< a|b|c: the allowed words; empty: any text
  std::string_view later = {};                                 ///< a|b|c: words that are known but not in this build
  double at_least = -std::numeric_limits<double>::infinity();  ///< of a text: its length in bytes
  double at_most = std::numeric_limits<double>::infinity();
  bool below = false;  ///< at_most is exclusive
};

/// `fallback` is the default as typed on the command line; a key whose default is null may be null.
struct key {
  std::string_view name;
  key_type type;
  std::string_view fallback;
  disposition use;
  std::string_view meaning;  ///< one line, with the unit
  key_limits limits = {};
};

/// Vocabulary of the tables.
namespace keys {
using enum key_type;
using enum disposition;

/// Limits of a number, or of a text's length in bytes: x or more.
constexpr key_limits at_least(double x) noexcept { return {.at_least = x}; }
/// Limits of a number: x or more, but not infinity.
constexpr key_limits finite_from(double x) noexcept {
  return {.at_least = x, .at_most = std::numeric_limits<double>::max()};
}
/// Limits of a number: from x to y.
constexpr key_limits between(double x, double y) noexcept { return {.at_least = x, .at_most = y}; }
/// Limits of a number: from x to less than y.
constexpr key_limits from_to_below(double x, double y) noexcept { return {.at_least = x, .at_most = y, .below = true}; }
constexpr key_limits not_empty = at_least(1);  ///< of a text
/// The allowed words of a text; `later` are known words that this build lacks.
constexpr key_limits words(std::string_view choices, std::string_view later = {}) noexcept {
  return {.choices = choices, .later = later};
}
}  // namespace keys

/// `--name a` sets `key` to a. Several flags may set one key; the last word on the command line wins, whether it was
/// written as a flag or as key=value.
struct flag {
  static constexpr int switch_only = 0;  ///< no value follows (action="store_true")
  static constexpr int any_count = -1;   ///< a list of none or more (nargs="*")
  static constexpr int append = -2;      ///< one value; each use adds it to the list (action="append")

  std::string_view name;  ///< without the two dashes
  std::string_view key;
  int count = 1;                   ///< how many values follow; more than one, any_count and append make a list
  std::string_view bare = "True";  ///< the value a switch sets, as typed after key=
  /// From the texts typed after the flag (a text, or a list of texts) to the value of the key; without it the texts are
  /// read by the type of the key. May throw config_error.
  value (*transform)(const value&) = nullptr;
};

/// A key belongs to the first topic that lists it, else to the topic whose name is its longest prefix.
struct help_topic {
  std::string_view name;        ///< prefix of its keys (data, actor_rollout_ref.actor), or any word
  std::string_view holds;       ///< short description
  std::string_view keys = {};   ///< the most used ones without the prefix `name`, separated by blanks
  std::string_view flags = {};  ///< keys of one word, the most used ones first
  bool takes_rest = false;      ///< takes the one-word keys that no topic lists
};

}  // namespace train
RLCORE_END
