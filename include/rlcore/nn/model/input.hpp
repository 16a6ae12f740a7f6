// Model inputs: token sequences, images and scored targets.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/nn/vision/positions.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

/// An image for the vision tower: height * width patches of vision_config::patch() floats, the merged() patches of a
/// token adjacent and tokens in raster order. Non-owning: the floats must outlive the pass.
struct image_patches {
  patch_grid grid;
  std::span<const float> patches;
};

/// Tokens, and the images of each sequence in token order: empty, or one row per sequence. Each image has one image
/// token (config::image_token_id) per token of its grid. Both must outlive the pass. Converts from sequences without
/// images. `routed_experts`, if not empty, has the experts of every token: ids [tokens, layers with experts,
/// experts per token] as in expert_choices, which must outlive the pass as well.
struct input {
  const ragged<std::int32_t>& tokens;
  const ragged<image_patches>* images = nullptr;
  std::span<const std::int16_t> routed_experts = {};

  /// Sequences of words.
  input(const ragged<std::int32_t>& words) : tokens(words) {}
  /// Words and images.
  input(const ragged<std::int32_t>& words, const ragged<image_patches>& seen) : tokens(words), images(&seen) {}

  /// Does any sequence have an image?
  bool shows_images() const noexcept { return images != nullptr && images->size() > 0; }
  /// Those of sequence `s`.
  std::span<const image_patches> images_of(std::size_t s) const {
    return images == nullptr || images->empty() ? std::span<const image_patches>() : images->row(s);
  }
};

/// Row `row[i]` of the packed batch (concatenated sequences, no padding) predicts `token[i]`. Rows must ascend for
/// gradients that do not depend on the split of sequences into batches. With a sampling mask the softmax of target i is
/// over the tokens `sampling_mask.row(i)`, ascending, that top-k, top-p and min-p left when token[i] was drawn; a row
/// without tokens stands for the whole vocabulary, and so do no rows.
struct targets {
  std::vector<std::int32_t> row, token;
  ragged<std::int32_t> sampling_mask = {};
};

}  // namespace nn

RLCORE_END
