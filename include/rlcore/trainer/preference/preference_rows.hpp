// Tokenized rows of a preference data set, and counts of dropped rows.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace data {
class image_cache;
}
namespace trainer {

/// Rows in the order of the data set.
template <class Row>
struct preference_rows {
  std::vector<Row> rows;
  std::size_t read = 0;          ///< rows of the files
  std::size_t long_prompts = 0;  ///< left out: the prompt alone has max_len - 2 tokens or more
  std::size_t nothing_left = 0;  ///< left out: within max_len there is no token of the answer, or no labelled step
  std::size_t truncated = 0;     ///< kept, but cut at max_len
  std::string pictures = {};     ///< how many have images, for summary(): image_text()
  std::shared_ptr<data::image_cache> cache{};  ///< makes the patches of their images

  std::size_t size() const noexcept { return rows.size(); }
  /// Row i of the kept rows.
  const Row& operator[](std::size_t i) const { return rows[i]; }

  /// The first `count` rows, as a set of its own.
  preference_rows first(std::size_t count) const {
    preference_rows some;
    some.rows.assign(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(count));
    some.read = count;
    some.cache = cache;
    return some;
  }

  /// "train  1801 rows (3 left out: prompt of max_len - 2 tokens or more; 12 cut to max_len)"
  std::string summary(const std::string& name) const {
    std::string notes;
    const auto note = [&](std::size_t n, const char* reason) {
      if (n > 0) notes += (notes.empty() ? "" : "; ") + std::to_string(n) + reason;
    };
    note(long_prompts, " left out: prompt of max_len - 2 tokens or more");
    note(nothing_left, " left out: nothing to learn within max_len");
    note(truncated, " cut to max_len");
    return name + "  " + std::to_string(size()) + (size() == 1 ? " row" : " rows") +
           (notes.empty() ? "" : " (" + notes + ")") + pictures;
  }
  /// Throws data_error if all rows were left out.
  void require_some(const std::string& files) const {
    if (rows.empty()) throw data_error(files + ": no row can be used: " + summary("of " + std::to_string(read)));
  }
};

}  // namespace trainer
RLCORE_END
