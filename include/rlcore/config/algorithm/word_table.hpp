// Compile-time table from option values to types: each row maps a word to the composition it selects.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"

RLCORE_BEGIN
namespace train {

namespace detail {

/// "a|b|c" of the rows' words, made at compile time.
template <class... Row>
struct joined_words {
  static constexpr std::size_t size = (Row::word.size() + ... + (sizeof...(Row) - 1));
  static constexpr std::array<char, size> text = [] {
    std::array<char, size> joined{};
    std::size_t at = 0;
    const auto append = [&](std::string_view word) {
      if (at > 0) joined[at++] = '|';
      for (const char c : word) joined[at++] = c;
    };
    (append(Row::word), ...);
    return joined;
  }();
};

}  // namespace detail

/// Each Row has a `word`, and compose(settings), which returns the composition that the word names. Each row compiles
/// into its own loop; adding a row is enough to add an option value.
template <class... Row>
struct word_table {
  /// "a|b|c": the choices of a key.
  static constexpr std::string_view choices{detail::joined_words<Row...>::text.data(),
                                            detail::joined_words<Row...>::size};

  /// Whether a row has this word.
  static constexpr bool has(std::string_view word) noexcept { return ((Row::word == word) || ...); }
  /// "a, b, c".
  static std::string listed() {
    std::string text;
    for (const std::string_view word : words_) (text += text.empty() ? "" : ", ") += word;
    return text;
  }

  /// Calls f(row) for the row of the word; f returns the same type for all rows. Throws config_error naming `key` if no
  /// row matches.
  template <class F>
  static auto visit(std::string_view key, std::string_view word, F&& f) {
    if (!has(word))
      throw config_error(std::string(key) + "=" + std::string(word) + ": expected one of " + listed() +
                         did_you_mean(word, words_));
    return visit_rows<F, Row...>(word, f);
  }

 private:
  static constexpr std::array<std::string_view, sizeof...(Row)> words_{Row::word...};

  template <class F, class First, class... Rest>
  static auto visit_rows(std::string_view word, F& f) {
    if constexpr (sizeof...(Rest) > 0)
      if (First::word != word) return visit_rows<F, Rest...>(word, f);
    return f(First{});
  }
};

}  // namespace train
RLCORE_END
