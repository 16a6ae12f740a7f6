// Prints the loss mask of a row.
#pragma once

#include <cstddef>
#include <string>

#include "rlcore/data/file.hpp"
#include "rlcore/data/sft_dataset.hpp"
#include "rlcore/text/tokenizer.hpp"

RLCORE_BEGIN
namespace trainer {

/// The row as lines of tokens with a bar between them, "+" in front of tokens that are learnt (the prediction one
/// position before them counts) and "-" in front of the others; one line for each run of either kind.
inline std::string mask_text(const data::sft_example& example, const text::tokenizer& tokenizer) {
  std::string out;
  const std::size_t n = example.tokens.size();
  for (std::size_t first = 0; first < n;) {
    const auto learnt = [&](std::size_t i) { return i > 0 && example.counts(i - 1); };
    std::size_t last = first;
    while (last < n && learnt(last) == learnt(first)) ++last;
    std::string place = std::to_string(first) + "-" + std::to_string(last - 1);
    out += std::string(learnt(first) ? "  + " : "  - ") + place +
           std::string(place.size() < 10 ? 10 - place.size() : 1, ' ');
    for (std::size_t i = first; i < last; ++i) {
      if (i > first) out += '|';
      out += data::printable(tokenizer.decode(std::span(&example.tokens[i], 1)));
    }
    out += '\n';
    first = last;
  }
  return out;
}

}  // namespace trainer
RLCORE_END
