// One `--flag` of a command line in the style of Python's argparse, and the key it sets.
#pragma once

#include <string_view>

#include "rlcore/config/grammar/value.hpp"
#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace trainer {

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

}  // namespace trainer
RLCORE_END
