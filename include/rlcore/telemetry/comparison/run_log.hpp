// Reads the metrics that a run logged, from metrics.jsonl, its folder, or the console's output.
#pragma once

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/telemetry/logger.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/text/utf8.hpp"

RLCORE_BEGIN
namespace train {

namespace detail {

/// Reads "0.5", "-3", "nan", "np.float64(0.5)"; empty if it is not a number.
std::optional<metrics::number> logged_number(std::string_view text);

}  // namespace detail

/// Reads a line "step:N - name:number - ..." of verl's console or this library's. Any text before "step:" is skipped
/// (process names, colours). Parts are split at " - ", then at the last ":"; values that are not numbers are dropped.
/// Bytes of a name that are not UTF-8 become U+FFFD, as in metrics.jsonl. Empty for any other line.
std::optional<metric_row> parse_console_line(std::string_view line);

/// The rows of a run, one per step in order; if a step occurs several times, its later numbers win. `path` is a
/// metrics.jsonl (ours, or verl's {"step", "data"}), a folder with one, or a console log. Throws file_error or
/// format_error.
std::vector<metric_row> read_run(std::filesystem::path path);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace train::detail {

RLCORE_INLINE std::optional<metrics::number> logged_number(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  if (text.ends_with(')') && text.find('(') != text.npos) {
    text.remove_suffix(1);
    text.remove_prefix(text.find('(') + 1);
  }
  if (text.starts_with('+')) text.remove_prefix(1);
  std::int64_t whole = 0;
  double real = 0;
  const auto complete = [&](auto result) {
    return result.ec == std::errc() && result.ptr == text.data() + text.size();
  };
  if (text.empty()) return std::nullopt;
  if (complete(std::from_chars(text.data(), text.data() + text.size(), whole))) return whole;
  if (complete(std::from_chars(text.data(), text.data() + text.size(), real))) return real;
  return std::nullopt;
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE std::optional<metric_row> parse_console_line(std::string_view line) {
  const std::size_t start = line.find("step:");
  if (start == line.npos || (start > 0 && std::isalnum(static_cast<unsigned char>(line[start - 1])) != 0))
    return std::nullopt;
  line.remove_prefix(start);
  metric_row row;
  for (bool first = true; !line.empty(); first = false) {
    const std::size_t end = std::min(line.find(" - "), line.size());
    const std::string_view part = line.substr(0, end);
    line.remove_prefix(std::min(end + 3, line.size()));
    const std::size_t colon = part.rfind(':');
    if (colon == part.npos) {
      if (first) return std::nullopt;
      continue;
    }
    const auto number = detail::logged_number(part.substr(colon + 1));
    if (first) {
      if (part.substr(0, colon) != "step" || !number || !std::holds_alternative<std::int64_t>(*number))
        return std::nullopt;
      row.step = std::get<std::int64_t>(*number);
    } else if (number && part.substr(0, colon) != "step") {  // as in metrics.jsonl, the step is not a metric
      row.values.set(text::utf8_lossy(part.substr(0, colon)), *number);
    }
  }
  return row;
}

RLCORE_INLINE std::vector<metric_row> read_run(std::filesystem::path path) {
  if (std::filesystem::is_directory(path)) {
    if (!std::filesystem::exists(path / "metrics.jsonl"))
      throw file_error(path.string() + ": no metrics.jsonl in this folder; expected the folder of a run");
    path /= "metrics.jsonl";
  }
  const std::string text = data::read_file(path);
  std::vector<metric_row> rows;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != text.npos && text[first] == '{') {
    rows = read_metric_rows(path);
  } else {
    std::set<std::string> names;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      if (auto row = parse_console_line(std::string_view(text).substr(at, end - at))) rows.push_back(std::move(*row));
      at = end + 1;
      if (rows.empty() || names.size() > most_metric_names) continue;
      for (const auto& [name, x] : rows.back().values) names.insert(name);
    }
    if (names.size() > most_metric_names)
      throw format_error(path.string() + ": more than " + std::to_string(most_metric_names) + " different metrics");
  }
  if (rows.empty())
    throw format_error(path.string() +
                       ": no step in it; expected lines 'step:N - name:number - ...' of a console, or "
                       "JSON lines with \"step\"");
  return merged_rows(rows);
}

}  // namespace train
RLCORE_END
#endif
