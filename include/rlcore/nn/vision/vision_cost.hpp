// Compute and memory cost of images in the vision tower.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rlcore/nn/config.hpp"
#include "rlcore/nn/vision/positions.hpp"

RLCORE_BEGIN
namespace nn {

/// The work of the tower for an image in the unit of parallel::sequence_cost: the forward's operations by those of
/// the language model's layers for one key of one query. `c` has a tower.
double vision_cost(const config& c, const patch_grid& grid) noexcept;

/// What a tower pass keeps for its backward: nothing (no backward), block inputs (recompute), or all activations.
enum class tower_keeps { activations, inputs, nothing };

/// The number of values that a tower pass holds for images of this many tokens: patches, block inputs, activations of
/// one or all blocks, and the merger's.
double vision_values(const vision_config& v, double tokens, tower_keeps keeps) noexcept;

}  // namespace nn
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_NN)
RLCORE_BEGIN
namespace nn {

RLCORE_INLINE double vision_cost(const config& c, const patch_grid& grid) noexcept {
  const vision_config& v = *c.vision;
  const auto f = [](std::int64_t n) { return static_cast<double>(n); };
  const double n = f(grid.height * grid.width), h = f(v.hidden_size), wide = h * f(v.merged());
  double attended = 0;  // pairs of patches, in all blocks
  for (std::int64_t l = 0; l < v.depth; ++l) {
    if (v.full(l)) {
      attended += n * n;
      continue;
    }
    const std::int64_t rows = grid.height / v.spatial_merge_size, columns = grid.width / v.spatial_merge_size;
    for (std::int64_t top = 0; top < rows; top += v.window())
      for (std::int64_t left = 0; left < columns; left += v.window()) {
        const double window = f(std::min(v.window(), rows - top) * std::min(v.window(), columns - left) * v.merged());
        attended += window * window;
      }
  }
  const double products = 2 * n * (h * f(v.patch()) + f(v.depth) * (4 * h * h + 3 * h * f(v.intermediate_size))) +
                          2 * n / f(v.merged()) * wide * (wide + f(v.out_hidden_size));
  return (products + 4 * h * attended) / (f(c.num_hidden_layers) * 2 * f(c.num_attention_heads * c.head_dim));
}

RLCORE_INLINE double vision_values(const vision_config& v, double tokens, tower_keeps keeps) noexcept {
  const auto f = [](std::int64_t n) { return static_cast<double>(n); };
  const double patches = tokens * f(v.merged()), h = f(v.hidden_size), wide = h * f(v.merged());
  const double inputs = f(keeps == tower_keeps::nothing ? 0 : v.depth) + 2,
               blocks = keeps == tower_keeps::activations ? f(v.depth) : 1;
  return patches * (f(v.patch()) + h * inputs + (8 * h + 3 * f(v.intermediate_size)) * blocks) +
         tokens * (3 * wide + 2 * f(v.out_hidden_size));
}

}  // namespace nn
RLCORE_END
#endif
