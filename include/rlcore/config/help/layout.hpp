// Lines and columns of --help.
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/config/check_value.hpp"
#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace trainer {

/// Columns that --help fills: $COLUMNS, else those of the terminal, else 80; from 60 to 120, as longer lines are hard
/// to read.
std::size_t help_width();

namespace detail {

/// Columns that a text in UTF-8 takes.
inline std::size_t columns_of(std::string_view text) {
  const auto inside = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) == 0x80; });
  return text.size() - static_cast<std::size_t>(inside);
}

/// The words of a text between its blanks.
std::vector<std::string> blank_words(std::string_view text);

/// The words with `between` between them, in lines of `width` columns at most. The first line continues at `column`,
/// later lines begin with `indent` blanks.
std::string filled(std::span<const std::string> words, std::string_view between, std::size_t column, std::size_t indent,
                   std::size_t width);

/// A line of a list: usage and meaning.
struct help_entry {
  std::string head, text, choices;
};

/// A list in two columns. The text of a head that is too long begins on the next line.
std::string entries_text(std::span<const help_entry> entries, std::size_t width);

}  // namespace detail
}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE std::size_t help_width() {
  const char* given = std::getenv("COLUMNS");
  long columns = given != nullptr ? std::strtol(given, nullptr, 10) : 0;
  winsize size{};
  if (columns <= 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  return static_cast<std::size_t>(columns <= 0 ? 80 : std::clamp(columns, 60L, 120L));
}

}  // namespace trainer

namespace trainer::detail {

RLCORE_INLINE std::vector<std::string> blank_words(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return words;
}

RLCORE_INLINE std::string filled(std::span<const std::string> words, std::string_view between, std::size_t column,
                                 std::size_t indent, std::size_t width) {
  std::string out;
  bool first = true;
  for (const std::string& word : words) {
    const std::size_t size = columns_of(word);
    if (first) {
      first = false;
    } else if (column + between.size() + size > width) {
      out += "\n" + std::string(column = indent, ' ');
    } else {
      out += between, column += between.size();
    }
    out += word, column += size;
  }
  return out;
}

RLCORE_INLINE std::string entries_text(std::span<const help_entry> entries, std::size_t width) {
  std::size_t longest = 0;
  for (const help_entry& e : entries) longest = std::max(longest, columns_of(e.head));
  const std::size_t column = std::min(longest, width * 2 / 5) + 4;
  std::string out;
  for (const help_entry& e : entries) {
    const std::size_t end = columns_of(e.head) + 2;
    out += "  " + e.head + (end + 2 > column ? "\n" + std::string(column, ' ') : std::string(column - end, ' '));
    out += filled(blank_words(e.text), " ", column, column, width) + "\n";
    if (e.choices.empty()) continue;
    const std::vector<std::string> words = split_words(e.choices);
    out += std::string(column, ' ') + "one of: " + filled(words, " ", column + 8, column + 8, width) + "\n";
  }
  return out;
}

}  // namespace trainer::detail
RLCORE_END
#endif
