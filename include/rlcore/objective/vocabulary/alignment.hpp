// Alignment of labels and logits: the shift by one position is made only here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// The label of a token belongs to the logits at its own position: heads that classify the tokens read so far (token
/// classification, process rewards).
struct at_position {};
/// The label of a token belongs to the logits one position earlier in the same sequence: language modelling. The first
/// token of a sequence is predicted by nothing and cannot be labelled.
struct predicts_next {};

/// Positions that have a label, sequence by sequence: what logits_batch takes as positions, labels and offsets.
/// Positions without a label are not listed; -100 is not used.
struct labelled_positions {
  std::vector<std::int64_t> positions, labels;
  std::vector<std::int64_t> offsets{0};

  std::size_t size() const noexcept { return positions.size(); }
  std::size_t rows() const noexcept { return offsets.size() - 1; }
};

namespace detail {
inline std::int64_t logits_of(at_position, std::int64_t token, std::int64_t) noexcept { return token; }
inline std::int64_t logits_of(predicts_next, std::int64_t token, std::int64_t first) noexcept {
  return token == first ? -1 : token - 1;
}
template <class Offsets>
void check_packed(const Offsets& offsets, std::size_t tokens, const char* caller) {
  if (offsets.empty() || offsets.front() != 0 || static_cast<std::size_t>(offsets.back()) != tokens)
    throw std::invalid_argument(
        std::string("rlcore: ") + caller + ": " + std::to_string(tokens) + " tokens, but the offsets " +
        (offsets.empty() ? std::string("are empty")
                         : "run from " + std::to_string(offsets.front()) + " to " + std::to_string(offsets.back())));
  for (std::size_t i = 1; i < offsets.size(); ++i)
    if (offsets[i] < offsets[i - 1])
      throw std::invalid_argument(std::string("rlcore: ") + caller + ": offsets[" + std::to_string(i) +
                                  "] = " + std::to_string(offsets[i]) + " follows " + std::to_string(offsets[i - 1]));
}
}  // namespace detail

/// The tokens of packed rows as labels: token t of a row with mask[t] non-zero labels the logits that `alignment` says.
/// The mask is about tokens (this token is learned), never about logits, and no label crosses from one row into the
/// next. With predicts_next a row's first token is left out whatever its mask. Throws std::invalid_argument if sizes do
/// not fit.
template <class Alignment, class Token, class Offset, class Mask>
labelled_positions label_tokens(Alignment alignment, std::span<const Token> tokens, std::span<const Offset> offsets,
                                std::span<const Mask> mask) {
  detail::check_packed(offsets, tokens.size(), "label_tokens");
  if (mask.size() != tokens.size())
    throw std::invalid_argument("rlcore: label_tokens: the mask is [" + std::to_string(mask.size()) +
                                "], the tokens are [" + std::to_string(tokens.size()) + "]");
  labelled_positions out;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    const auto first = static_cast<std::int64_t>(offsets[i]), last = static_cast<std::int64_t>(offsets[i + 1]);
    for (std::int64_t t = first; t < last; ++t) {
      const std::int64_t at = detail::logits_of(alignment, t, first);
      if (at < 0 || mask[static_cast<std::size_t>(t)] == Mask(0)) continue;
      out.positions.push_back(at);
      out.labels.push_back(static_cast<std::int64_t>(tokens[static_cast<std::size_t>(t)]));
    }
    out.offsets.push_back(static_cast<std::int64_t>(out.positions.size()));
  }
  return out;
}

RLCORE_ALGORITHM_END
RLCORE_END
