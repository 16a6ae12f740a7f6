// What a pass reads: sequences of tokens and images, and the targets that are scored.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/nn/vision/positions.hpp"
#include "rlcore/tensor/ragged.hpp"

RLCORE_BEGIN
namespace nn {

/// A picture for the tower: height * width patches of vision_config::patch() floats, the merged() patches of a token
/// side by side and tokens in raster order. The floats are the caller's and have to outlive the pass.
struct picture {
  patch_grid grid;
  std::span<const float> patches;
};

/// Tokens, and the pictures of each sequence in the order of their places among the tokens: no rows at all, or one for
/// each sequence. Where a picture goes there are as many image tokens (config::image_token_id) as its grid has. Both
/// have to outlive the pass. Converts from sequences without pictures.
struct input {
  const ragged<std::int32_t>& tokens;
  const ragged<picture>* pictures = nullptr;

  /// Sequences of words.
  input(const ragged<std::int32_t>& words) : tokens(words) {}
  /// Words and pictures.
  input(const ragged<std::int32_t>& words, const ragged<picture>& seen) : tokens(words), pictures(&seen) {}

  /// Is there a picture in any of the sequences?
  bool shows_pictures() const noexcept { return pictures != nullptr && pictures->size() > 0; }
  /// Those of sequence `s`.
  std::span<const picture> pictures_of(std::size_t s) const {
    return pictures == nullptr || pictures->empty() ? std::span<const picture>() : pictures->row(s);
  }
};

/// Row `row[i]` of the packed batch (sequences one after the other, without padding) predicts `token[i]`. Rows ascend
/// when gradients shall not depend on how sequences are split into batches.
struct targets {
  std::vector<std::int32_t> row, token;
};

}  // namespace nn

RLCORE_END
