// Tokenized rows of preference data sets, and the columns that they come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace data {
struct image_file;
}
namespace train {

/// The images of a row, in the order of their places.
using row_images = std::vector<std::shared_ptr<const data::image_file>>;

/// Text of a prompt and its answer: the answer begins where the prompt ends.
struct prompt_and_answer {
  std::string prompt, answer;
  row_images images{};  ///< of the prompt
};

/// A pair of answers as tokens.
struct preference_pair {
  std::vector<std::int32_t> chosen, rejected;  ///< prompt and answer
  std::size_t prompt_length = 0;               ///< tokens of the prompt alone; 0 for reward models
  double margin = 0;                           ///< column margin; 0 where there is none
  row_images images{};                         ///< both answers' prompt shows them
};

/// --prompt_key, --chosen_key, --rejected_key; without a prompt column the answers are whole conversations or texts.
struct pair_columns {
  std::string prompt = {}, chosen = "chosen", rejected = "rejected";
};

/// One answer as tokens.
struct unpaired_row {
  prompt_and_answer text;  ///< kept: mismatched rows pair prompts with other answers; has the images
  std::vector<std::int32_t> tokens;
  std::size_t prompt_length = 0;
  bool desirable = false;
};

/// --input_key, --output_key (empty: the input column holds whole conversations), --label_key.
struct unpaired_columns {
  std::string input = "input", output = {}, label = "label";
};

/// A text with a placeholder after each step. A hard label is the number of its reward token (without reward tokens:
/// the id of the label's token), a soft one the probability of the first of two reward tokens.
struct judged_row {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> steps;   ///< positions of the placeholders
  std::vector<std::int32_t> labels;  ///< hard, one per step; or
  std::vector<float> probabilities;  ///< soft, one per step
  row_images images{};
};

/// --input_key, --label_key, --placeholder_token, --reward_tokens.
struct step_columns {
  std::string input = "input", label = "label", placeholder = {};
  std::vector<std::string> reward_tokens = {};
};

/// The ids of the columns' special words.
struct step_tokens {
  std::int32_t placeholder = 0;
  std::vector<std::int32_t> rewards;  ///< empty: labels are any tokens, each against the whole vocabulary
};

}  // namespace train

namespace data {
class image_cache;
}
namespace train {

/// Rows in the order of the data set.
template <class Row>
struct preference_rows {
  std::vector<Row> rows;
  std::size_t read = 0;          ///< rows of the files
  std::size_t long_prompts = 0;  ///< left out: the prompt alone has max_len - 2 tokens or more
  std::size_t nothing_left = 0;  ///< left out: within max_len there is no token of the answer, or no labelled step
  std::size_t truncated = 0;     ///< kept, but cut at max_len
  std::string images = {};       ///< how many have images, for summary(): image_text()
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
           (notes.empty() ? "" : " (" + notes + ")") + images;
  }
  /// Throws data_error if all rows were left out.
  void require_some(const std::string& files) const {
    if (rows.empty()) throw data_error(files + ": no row can be used: " + summary("of " + std::to_string(read)));
  }
};

}  // namespace train

RLCORE_END
