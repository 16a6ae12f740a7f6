// Fields of tokenizer files, read with a message that names the place instead of a parser's exception.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace text {

/// The value of `key` inside the object `parent`, null when the key is absent. `where` is the place in the file, for
/// messages. Throws format_error when `parent` is not an object.
inline const nlohmann::json& field(const nlohmann::json& parent, const char* key, std::string_view where) {
  static const nlohmann::json absent;
  if (!parent.is_object()) throw format_error(std::string(where) + ": expected an object, found " + parent.type_name());
  const auto found = parent.find(key);
  return found == parent.end() ? absent : *found;
}

/// A string field that must be there.
inline std::string string_field(const nlohmann::json& parent, const char* key, std::string_view where) {
  const nlohmann::json& value = field(parent, key, where);
  if (value.is_string()) return value.get<std::string>();
  throw format_error(std::string(where) + '.' + key + ": expected a string, found " + value.type_name());
}

/// A true/false field, `otherwise` when absent or null.
inline bool bool_field(const nlohmann::json& parent, const char* key, bool otherwise, std::string_view where) {
  const nlohmann::json& value = field(parent, key, where);
  if (value.is_null()) return otherwise;
  if (value.is_boolean()) return value.get<bool>();
  throw format_error(std::string(where) + '.' + key + ": expected true or false, found " + value.type_name());
}

/// A whole-number field that must be there.
inline long long integer_field(const nlohmann::json& parent, const char* key, std::string_view where) {
  const nlohmann::json& value = field(parent, key, where);
  if (value.is_number_integer()) return value.get<long long>();
  throw format_error(std::string(where) + '.' + key + ": expected a whole number, found " + value.type_name());
}

}  // namespace text
RLCORE_END
