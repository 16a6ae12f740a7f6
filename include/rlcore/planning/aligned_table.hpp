// Rows of text in columns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace trainer::planning {

/// The first column is flush left, the others flush right; the first row is the heading.
struct aligned_table {
  std::vector<std::vector<std::string>> rows;

  /// Appends a row of cells; rows may differ in length.
  void add(std::vector<std::string> row) { rows.push_back(std::move(row)); }
  std::string text() const;
  /// The same as Markdown.
  std::string markdown() const;
};

/// Three digits that mean something: 0.0123, 1.23, 12.3, 123, 12345.
std::string short_number(double x);

}  // namespace trainer::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace trainer::planning {

RLCORE_INLINE std::string aligned_table::text() const {
  std::vector<std::size_t> width;
  for (const auto& row : rows)
    for (std::size_t k = 0; k < row.size(); ++k) {
      if (k == width.size()) width.push_back(0);
      width[k] = std::max(width[k], row[k].size());
    }
  std::string out;
  for (const auto& row : rows) {
    std::string line = " ";
    for (std::size_t k = 0; k < row.size(); ++k) {
      const std::string blanks(width[k] - row[k].size(), ' ');
      line += (k == 0 ? " " : "  ") + (k == 0 ? row[k] + blanks : blanks + row[k]);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

RLCORE_INLINE std::string aligned_table::markdown() const {
  std::string out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    out += "|";
    for (const std::string& cell : rows[r]) out += " " + cell + " |";
    out += "\n";
    if (r == 0) {
      out += "|";
      for (std::size_t k = 0; k < rows[r].size(); ++k) out += k == 0 ? "---|" : "---:|";
      out += "\n";
    }
  }
  return out;
}

RLCORE_INLINE std::string short_number(double x) {
  char text[32];
  const double size = x < 0 ? -x : x;
  const int digits = size == 0 || size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size >= 0.1 ? 3 : 4;
  std::snprintf(text, sizeof(text), "%.*f", digits, x);
  return text;
}

}  // namespace trainer::planning
RLCORE_END
#endif
