// Memory checks before a run: responses of a step, images of prompts.
#pragma once

#include <fmt/format.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>

#include "rlcore/config/settings/batch_plan.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/memory_text.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/nn/vision/vision_config.hpp"
#include "rlcore/nn/vision/vision_cost.hpp"
#include "rlcore/train/model/images.hpp"
#include "rlcore/train/policy/settings.hpp"
#include "rlcore/train/policy/trajectory/trajectory.hpp"
#include "rlcore/train/ranks/resources.hpp"
#include "rlcore/train/ranks/team.hpp"

RLCORE_BEGIN
namespace train {

/// Responses that are in memory together.
struct response_count {
  std::string key;  ///< that sets the number of samples
  std::int64_t prompts = 0, samples = 0;
  std::string ways_out;                     ///< keys that reduce it
  const char* name = "trajectories";        ///< name of a response in messages
  std::size_t object = sizeof(trajectory);  ///< its size without tokens
};

/// Bytes of a trajectory: of each its number, of a token of the response a log-prob and an entropy.
/// `object` is the size of what holds them.
inline double trajectory_bytes(double prompt_tokens, double response_tokens, std::size_t object = sizeof(trajectory)) {
  return static_cast<double>(object) + sizeof(std::int32_t) * (prompt_tokens + response_tokens) +
         2 * sizeof(float) * response_tokens;
}

/// Mean tokens of a prompt.
inline double mean_tokens(const data::prompt_dataset& prompts) {
  double sum = 0;
  for (const data::prompt& p : prompts.prompts) sum += static_cast<double>(p.ids.size());
  return prompts.size() == 0 ? 0 : sum / static_cast<double>(prompts.size());
}

/// Throws config_error with the numbers if the responses do not fit in `available` bytes even with one token each.
/// Returns a warning if they do not fit with `longest` tokens each, else "". Without `available` there is no limit.
inline std::string check_memory(const response_count& n, double prompt_tokens, std::int64_t longest,
                                std::optional<std::size_t> available) {
  if (!available) return {};
  const double count = static_cast<double>(n.prompts) * static_cast<double>(n.samples),
               least = trajectory_bytes(prompt_tokens, 1, n.object),
               most = trajectory_bytes(prompt_tokens, static_cast<double>(longest), n.object),
               there = static_cast<double>(*available);
  const std::string sum = fmt::format("{}={}: {} prompts x {} samples are {:.0f} {}", n.key, n.samples, n.prompts,
                                      n.samples, count, n.name),
                    rest = memory_text(there) + " of memory are available here";
  if (count * least > there)
    throw config_error(fmt::format("{} of at least {:.0f} bytes each, {} together, but {}; lower {}", sum, least,
                                   memory_text(count * least), rest, n.ways_out));
  if (count * most <= there) return {};
  return fmt::format("{} of up to {:.0f} bytes each if all have {} tokens, {} together, but {}", sum, most, longest,
                     memory_text(count * most), rest);
}

/// A training pass over `rows` sequences.
struct image_pass {
  nn::vision_config tower;
  nn::tower_keeps keeps = nn::tower_keeps::inputs;
  std::int64_t rows = 1;
};

/// Bytes of images of `tokens` tokens in a pass: patches and values of the tower.
inline double image_bytes(const nn::vision_config& tower, double tokens, nn::tower_keeps keeps) {
  const double patches = tokens * static_cast<double>(tower.merged() * tower.patch());
  return sizeof(float) * (patches + nn::vision_values(tower, tokens, keeps));
}

/// The most tokens of images of a prompt.
double most_image_tokens(const data::prompt_dataset& prompts, const nn::vision_config& tower);

/// Throws config_error with the numbers if the images of one prompt do not fit in `available` bytes even in a pass
/// without gradient. Returns a warning if those of a training pass may not fit, else "". Without `available` there is
/// no limit.
std::string check_image_memory(const data::prompt_dataset& prompts, const image_pass& pass,
                               std::optional<std::size_t> available);

/// Throws config_error if the responses of a step, or of a validation, or the images of one prompt cannot be in the
/// memory of this machine, which its `ranks` share; warns in `plan` if they, or those of a micro-batch, may not fit.
void check_memory(batch_plan& plan, const policy_settings& s, const nn::config& model,
                  const data::prompt_dataset& train, const data::prompt_dataset& val, const team& ranks);

}  // namespace train

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE double most_image_tokens(const data::prompt_dataset& prompts, const nn::vision_config& tower) {
  double most = 0;
  for (const data::prompt& p : prompts.prompts) {
    double tokens = 0;
    for (const nn::image_patches& each : grids_of(p.images, prompts.cache.get()))
      tokens += static_cast<double>(each.grid.height * each.grid.width / tower.merged());
    most = std::max(most, tokens);
  }
  return most;
}

RLCORE_INLINE std::string check_image_memory(const data::prompt_dataset& prompts, const image_pass& pass,
                                             std::optional<std::size_t> available) {
  const double tokens = available ? most_image_tokens(prompts, pass.tower) : 0;
  if (tokens == 0) return {};
  const double there = static_cast<double>(*available),
               least = image_bytes(pass.tower, tokens, nn::tower_keeps::nothing),
               most = static_cast<double>(pass.rows) * image_bytes(pass.tower, tokens, pass.keeps);
  const std::string sum = fmt::format("the images of a prompt have up to {:.0f} tokens", tokens),
                    rest = memory_text(there) + " of memory are available here";
  if (least > there)
    throw config_error(
        fmt::format("{}, for which the vision tower needs {}, but {}; lower "
                    "data.mm_processor_kwargs.max_pixels or data.max_prompt_length",
                    sum, memory_text(least), rest));
  if (most <= there) return {};
  return fmt::format(
      "{}; in a micro-batch of {} such trajectories the vision tower needs {}, but {} "
      "(ppo_micro_batch_size_per_gpu, enable_gradient_checkpointing, freeze_vision_tower)",
      sum, pass.rows, memory_text(most), rest);
}

RLCORE_INLINE void check_memory(batch_plan& plan, const policy_settings& s, const nn::config& model,
                                const data::prompt_dataset& train, const data::prompt_dataset& val, const team& ranks) {
  const std::size_t share = ranks.least(available_memory().value_or(std::numeric_limits<std::size_t>::max()) /
                                        static_cast<std::size_t>(ranks.of_this_machine()));
  const std::string rollout = "actor_rollout_ref.rollout.";
  for (const std::string& warning :
       {check_memory({rollout + "n", std::max({plan.prompts_per_step, plan.prompts_per_round, plan.prompts_in_play}),
                      plan.samples_per_prompt, "it or data.train_batch_size"},
                     mean_tokens(train), s.max_response_length, share),
        check_memory({rollout + "val_kwargs.n", s.val_before_train || s.test_freq > 0 ? std::ssize(val.prompts) : 0,
                      s.val_samples, "it or data.val_max_samples"},
                     mean_tokens(val), s.max_response_length, share)})
    if (!warning.empty()) plan.warnings.push_back(warning);
  if (!model.vision) return;
  const auto keeps = s.freeze_vision_tower     ? nn::tower_keeps::nothing
                     : s.recompute_activations ? nn::tower_keeps::inputs
                                               : nn::tower_keeps::activations;
  check_image_memory(val, {*model.vision, nn::tower_keeps::nothing, 1}, share);
  const std::string warning = check_image_memory(
      train, {*model.vision, keeps, std::max<std::int64_t>(1, plan.micro_batch_trajectories)}, share);
  if (!warning.empty()) plan.warnings.push_back(warning);
}

}  // namespace train
RLCORE_END
#endif
