// Truncation of rows with too many tokens (verl's data.truncation).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/data/file.hpp"

RLCORE_BEGIN
namespace data {

/// left keeps the tail, right keeps the head, middle keeps max / 2 tokens of the head and the rest from the tail.
enum class truncation { error, left, right, middle };

/// Throws config_error for any other word.
truncation parse_truncation(std::string_view word);

/// Shortens `ids` to at most `limit` (0: no limit). With truncation::error longer ids throw a data_error, which starts
/// with `where` and names both lengths and the setting `limit_name`.
void truncate(std::vector<std::int32_t>& ids, std::size_t limit, truncation mode, const std::string& where,
              std::string_view limit_name);

}  // namespace data
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DATA)
RLCORE_BEGIN
namespace data {

RLCORE_INLINE truncation parse_truncation(std::string_view word) {
  if (word == "error") return truncation::error;
  if (word == "left") return truncation::left;
  if (word == "right") return truncation::right;
  if (word == "middle") return truncation::middle;
  throw config_error("data.truncation is '" + printable(word) + "'; expected error, left, right or middle" +
                     did_you_mean(word, std::vector<std::string>{"error", "left", "right", "middle"}));
}

RLCORE_INLINE void truncate(std::vector<std::int32_t>& ids, std::size_t limit, truncation mode,
                            const std::string& where, std::string_view limit_name) {
  if (limit == 0 || ids.size() <= limit) return;
  const auto excess = static_cast<std::ptrdiff_t>(ids.size() - limit);
  switch (mode) {
    case truncation::left:
      ids.erase(ids.begin(), ids.begin() + excess);
      return;
    case truncation::right:
      ids.resize(limit);
      return;
    case truncation::middle: {
      const auto head = ids.begin() + static_cast<std::ptrdiff_t>(limit / 2);
      ids.erase(head, head + excess);
      return;
    }
    case truncation::error:
      break;
  }
  throw data_error(where + ": " + std::to_string(ids.size()) + " tokens, but " + std::string(limit_name) + " is " +
                   std::to_string(limit) + " and data.truncation is error: raise the limit, or cut by " +
                   "data.truncation=left or right" +
                   (limit_name == "data.max_prompt_length"
                        ? " or middle, or leave such rows out by data.filter_overlong_prompts=True"
                        : ""));
}

}  // namespace data
RLCORE_END
#endif
