// Dataset row (a JSON object, for every file format), and JSON Lines: one JSON object per line.
#pragma once

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/text/big_integer.hpp"
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

/// Parses one JSON object; throws data_error that starts with `where` for anything else.
row parse_row(std::string_view json, const std::string& where);

/// Parses the objects of `text`, read from `file`. Accepts a byte order mark, CRLF and blank lines; messages count
/// lines from 1.
std::vector<row> parse_jsonl(std::string_view text, const std::string& file);

/// Throws file_error, or data_error with the number of the line.
inline std::vector<row> read_jsonl(const std::filesystem::path& path) {
  return parse_jsonl(read_file(path), path.string());
}

/// A .json file: one array of objects, or JSON Lines.
std::vector<row> read_json(const std::filesystem::path& path);

/// One line per row, UTF-8 unescaped.
inline std::string to_jsonl(std::span<const row> rows) {
  std::string lines;
  for (const row& r : rows) lines += text::exact_dump(r) + '\n';
  return lines;
}

}  // namespace data
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DATA)
RLCORE_BEGIN
namespace data {

RLCORE_INLINE row parse_row(std::string_view json, const std::string& where) {
  row parsed = text::parse_exact_json<data_error, row>(json, where);
  if (!parsed.is_object())
    throw data_error(where + ": expected a JSON object, found " + std::string(parsed.type_name()));
  return parsed;
}

RLCORE_INLINE std::vector<row> parse_jsonl(std::string_view text, const std::string& file) {
  std::vector<row> rows;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view content = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (content.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    rows.push_back(parse_row(content, file + ": line " + std::to_string(line)));
  }
  return rows;
}

RLCORE_INLINE std::vector<row> read_json(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  const std::size_t start = content.starts_with("\xef\xbb\xbf") ? 3 : 0;
  const std::size_t first = content.find_first_not_of(" \t\r\n", start);
  if (first == std::string::npos || content[first] != '[') return parse_jsonl(content, path.string());
  row array = text::parse_exact_json<data_error, row>(content, path.string());
  std::vector<row> rows;
  for (row& element : array) {
    if (!element.is_object())
      throw data_error(row_text(path.string(), rows.size()) + ": expected a JSON object, found " + element.type_name());
    rows.push_back(std::move(element));
  }
  return rows;
}

}  // namespace data
RLCORE_END
#endif
