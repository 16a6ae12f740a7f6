// Packed prompts and answers, and the log-probs of the answers' tokens.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/nn/model/input.hpp"
#include "rlcore/tensor/ragged.hpp"

RLCORE_BEGIN
namespace train {

/// Tokens of an answer that are scored: those behind the prompt, never the very first token of a row.
inline std::size_t answer_start(std::size_t prompt_length) noexcept { return std::max<std::size_t>(prompt_length, 1); }
/// The number of an answer's tokens that are scored.
inline std::size_t answer_length(std::span<const std::int32_t> tokens, std::size_t prompt_length) noexcept {
  return tokens.size() - std::min(tokens.size(), answer_start(prompt_length));
}

/// Rows without padding, and one target per token of an answer. The last token of a row predicts nothing that is
/// scored, so it is not fed.
struct packed_answers {
  ragged<std::int32_t> inputs;
  nn::targets targets;
  std::vector<std::int32_t> offsets{0};  ///< of the answers' tokens in `targets`

  void clear() {
    inputs.clear();
    targets.row.clear(), targets.token.clear();
    offsets.assign(1, 0);
  }
  /// Appends a row of prompt and answer.
  void push_back(std::span<const std::int32_t> tokens, std::size_t prompt_length) {
    const auto base = static_cast<std::int32_t>(inputs.values.size());
    inputs.push_back(tokens.first(tokens.size() - std::min<std::size_t>(tokens.size(), 1)));
    for (std::size_t t = answer_start(prompt_length); t < tokens.size(); ++t) {
      targets.row.push_back(base + static_cast<std::int32_t>(t) - 1);
      targets.token.push_back(tokens[t]);
    }
    offsets.push_back(static_cast<std::int32_t>(targets.row.size()));
  }
  std::size_t size() const noexcept { return offsets.size() - 1; }

  /// Sum of a row's values, in the order of its tokens.
  double sum(std::size_t row, std::span<const float> values) const {
    double total = 0;
    for (auto k = static_cast<std::size_t>(offsets[row]); k < static_cast<std::size_t>(offsets[row + 1]); ++k)
      total += static_cast<double>(values[k]);
    return total;
  }
};

}  // namespace train
RLCORE_END
