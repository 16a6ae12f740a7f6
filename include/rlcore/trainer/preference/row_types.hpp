// Rows of preference data sets as tokens, and the columns that they come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace data {
struct image_file;
}
namespace trainer {

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

}  // namespace trainer
RLCORE_END
