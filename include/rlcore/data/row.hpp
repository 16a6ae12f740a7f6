// Dataset row: a JSON object, for every file format.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace data {

/// Keys keep the order of the file's columns.
using row = nlohmann::ordered_json;

/// The rows of one file, with its name for messages.
struct table {
  std::string file;
  std::vector<row> rows;
};

/// "<file>: row <i>" (counted from 0), the prefix of every error message about a row.
inline std::string row_text(const std::string& file, std::size_t index) {
  return file + ": row " + std::to_string(index);
}

/// The names of the columns, comma-separated.
inline std::string column_names(const row& of) {
  std::string list;
  for (const auto& [key, value] : of.items()) list += (list.empty() ? "" : ", ") + data::printable(key);
  return list;
}

/// The value of a column; throws data_error with the columns present and the nearest name.
inline const row& column(const row& from, const std::string& name, const std::string& where) {
  if (const auto found = from.find(name); found != from.end()) return *found;
  std::vector<std::string> names;
  for (const auto& [key, value] : from.items()) names.push_back(data::printable(key));
  throw data_error(where + ": no column '" + data::printable(name) + "'; it has " +
                   data::printable(column_names(from), 300) + did_you_mean(name, names));
}

/// Whether a column of the row has content: not null, an empty text or a list of nulls.
inline bool has_content(const row& from, const std::string& key) {
  const auto found = from.find(key);
  if (found == from.end() || found->is_null()) return false;
  if (found->is_string()) return !found->get_ref<const std::string&>().empty();
  const auto is_null = [](const row& element) { return element.is_null(); };
  return !found->is_array() || !std::all_of(found->begin(), found->end(), is_null);
}

/// A column whose value must be a string.
inline const std::string& string_column(const row& from, const std::string& name, const std::string& where) {
  const row& value = column(from, name, where);
  if (!value.is_string())
    throw data_error(where + ": column '" + data::printable(name) + "' is " + data::printable(text::json_text(value)) +
                     "; expected a string");
  return value.get_ref<const std::string&>();
}

}  // namespace data
RLCORE_END
