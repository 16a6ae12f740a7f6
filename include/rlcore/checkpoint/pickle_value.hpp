// What a pickle describes, as plain data: calls stay descriptions of calls and are never made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// What a node of the description is.
enum class pickle_kind : std::uint8_t {
  none,
  boolean,
  integer,
  real,
  text,  ///< also bytes
  tuple,
  list,        ///< also sets
  dictionary,  ///< items: key, value, key, value, ...
  global,      ///< text: "module name"
  object,      ///< items: what would be called, its arguments, and (if there is one) its state
  persistent   ///< items: the identifier of something outside the pickle, such as a storage
};

/// A node of the description; `items` index the graph's other nodes.
struct pickle_value {
  pickle_kind kind = pickle_kind::none;
  std::int64_t number = 0;  ///< of boolean and integer
  double real = 0;
  std::string text;
  std::vector<std::uint32_t> items;
};

/// All nodes of one pickle and which of them is the result.
struct pickle_graph {
  std::vector<pickle_value> values;
  std::uint32_t root = 0;

  /// Node i.
  const pickle_value& operator[](std::uint32_t i) const { return values[i]; }
  /// Is node i of this kind?
  bool is(std::uint32_t i, pickle_kind kind) const { return values[i].kind == kind; }
  /// The value of a text key in a dictionary; nullptr if there is none.
  const pickle_value* find(const pickle_value& dictionary, std::string_view key) const {
    if (dictionary.kind != pickle_kind::dictionary) return nullptr;
    for (std::size_t i = 0; i + 1 < dictionary.items.size(); i += 2) {
      const pickle_value& k = values[dictionary.items[i]];
      if (k.kind == pickle_kind::text && k.text == key) return &values[dictionary.items[i + 1]];
    }
    return nullptr;
  }
};

}  // namespace checkpoint
RLCORE_END
