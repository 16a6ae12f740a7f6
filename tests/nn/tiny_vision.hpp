// A tiny model with a vision tower, and prompts with none, one and three images.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/nn/model/input.hpp"

namespace tiny_vision {

using namespace rlcore;

inline constexpr std::int32_t video = 56, image = 57, start = 58, end = 59;

inline nn::config config() {
  nn::config c;
  c.vocab_size = 60, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 8, c.max_position_embeddings = 128;
  c.initializer_range = 0.3;  // far from uniform, so that a wrong position or row shows
  c.mrope_section = {1, 1, 2}, c.image_token_id = image, c.video_token_id = video;
  nn::vision_config& v = c.vision.emplace();
  v.depth = 2, v.hidden_size = 32, v.num_heads = 4, v.intermediate_size = 44, v.out_hidden_size = 32;
  v.patch_size = 4, v.window_size = 32, v.fullatt_block_indexes = {1};
  return c;
}

/// A prompt with its images, whose floats it owns. Number `seed` draws words and floats.
struct prompt {
  std::vector<std::int32_t> tokens;
  std::vector<std::vector<float>> floats;
  std::vector<nn::image_patches> images;

  prompt(std::uint32_t seed, std::initializer_list<nn::patch_grid> grids) : prompt(seed, grids, seed) {}
  /// The floats come from another number than the words.
  prompt(std::uint32_t seed, std::initializer_list<nn::patch_grid> grids, std::uint32_t image_seed) {
    const auto words = [&](std::uint32_t n) {
      for (std::uint32_t i = 0; i < n; ++i)
        tokens.push_back(
            static_cast<std::int32_t>(random_key{3}.below(50, seed, static_cast<std::uint32_t>(tokens.size()))));
    };
    words(2 + seed % 3);
    for (const nn::patch_grid& grid : grids) {
      tokens.push_back(start);
      tokens.insert(tokens.end(), static_cast<std::size_t>(grid.height * grid.width / 4), image);
      tokens.push_back(end);
      words(seed % 2);
      std::vector<float>& values = floats.emplace_back();
      const auto count = static_cast<std::uint32_t>(grid.height * grid.width * config().vision->patch());
      for (std::uint32_t i = 0; i < count; ++i)
        values.push_back(
            static_cast<float>(random_key{4}.normal(i, image_seed, static_cast<std::uint32_t>(floats.size()))));
    }
    words(3);
    std::size_t next = 0;  // floats no longer move
    for (const nn::patch_grid& grid : grids) images.push_back({grid, floats[next++]});
  }
  prompt(prompt&&) = default;
};

/// Row i: with none, one and three images, in turn.
inline prompt row(std::uint32_t i) {
  if (i % 3 == 1) return prompt(i, {{10, 14}});
  if (i % 3 == 2) return prompt(i, {{2, 2}, {6, 4}, {4, 2}});
  return prompt(i, {});
}

inline std::vector<prompt> prompts(std::uint32_t count) {
  std::vector<prompt> all;
  for (std::uint32_t i = 0; i < count; ++i) all.push_back(row(i));
  return all;
}

}  // namespace tiny_vision
