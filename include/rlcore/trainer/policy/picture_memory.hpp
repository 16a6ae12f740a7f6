// Memory check of prompt images: patches and vision tower activations.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "rlcore/core/error.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/nn/vision/vision_config.hpp"
#include "rlcore/nn/vision/vision_cost.hpp"
#include "rlcore/training/shown_pictures.hpp"

RLCORE_BEGIN
namespace trainer {

/// A training pass over `rows` sequences.
struct picture_pass {
  nn::vision_config tower;
  nn::tower_keeps keeps = nn::tower_keeps::inputs;
  std::int64_t rows = 1;
};

/// Bytes of images of `tokens` tokens in a pass: patches and values of the tower.
inline double picture_bytes(const nn::vision_config& tower, double tokens, nn::tower_keeps keeps) {
  const double patches = tokens * static_cast<double>(tower.merged() * tower.patch());
  return sizeof(float) * (patches + nn::vision_values(tower, tokens, keeps));
}

/// The most tokens of images of a prompt.
double most_picture_tokens(const data::prompt_dataset& prompts, const nn::vision_config& tower);

/// Throws config_error with the numbers if the images of one prompt do not fit in `available` bytes even in a pass
/// without gradient. Returns a warning if those of a training pass may not fit, else "". Without `available` there is
/// no limit.
std::string check_picture_memory(const data::prompt_dataset& prompts, const picture_pass& pass,
                                 std::optional<std::size_t> available);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINER)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE double most_picture_tokens(const data::prompt_dataset& prompts, const nn::vision_config& tower) {
  double most = 0;
  for (const data::prompt& p : prompts.prompts) {
    double tokens = 0;
    for (const nn::picture& each : grids_of(p.images, prompts.cache.get()))
      tokens += static_cast<double>(each.grid.height * each.grid.width / tower.merged());
    most = std::max(most, tokens);
  }
  return most;
}

RLCORE_INLINE std::string check_picture_memory(const data::prompt_dataset& prompts, const picture_pass& pass,
                                               std::optional<std::size_t> available) {
  const double tokens = available ? most_picture_tokens(prompts, pass.tower) : 0;
  if (tokens == 0) return {};
  const double there = static_cast<double>(*available),
               least = picture_bytes(pass.tower, tokens, nn::tower_keeps::nothing),
               most = static_cast<double>(pass.rows) * picture_bytes(pass.tower, tokens, pass.keeps);
  const auto gigabytes = [](double bytes) { return fmt::format("{:.3g} GB", bytes * 1e-9); };
  const std::string sum = fmt::format("the pictures of a prompt have up to {:.0f} tokens", tokens),
                    rest = gigabytes(there) + " of memory are available here";
  if (least > there)
    throw config_error(
        fmt::format("{}, for which the vision tower needs {}, but {}; lower "
                    "data.mm_processor_kwargs.max_pixels or data.max_prompt_length",
                    sum, gigabytes(least), rest));
  if (most <= there) return {};
  return fmt::format(
      "{}; in a micro-batch of {} such trajectories the vision tower needs {}, but {} "
      "(ppo_micro_batch_size_per_gpu, enable_gradient_checkpointing, freeze_vision_tower)",
      sum, pass.rows, gigabytes(most), rest);
}

}  // namespace trainer
RLCORE_END
#endif
