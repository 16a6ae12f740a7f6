// Generates responses to rows of a data set, with their images.
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/data/image_cache.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/rollout/engine.hpp"
#include "rlcore/train/model/images.hpp"

RLCORE_BEGIN
namespace train {

/// Attaches images to the first of `requests`: those of row prompt_number of `prompts`; neighbours with the same prompt
/// share them. Stops at a prompt when the patches fill the cache, if `limited`; returns the number of requests with
/// images attached.
inline std::size_t show_images(std::span<rollout::request> requests, const data::prompt_dataset& prompts,
                               shown_images& images, bool limited = true) {
  if (!prompts.cache) return requests.size();
  const auto is_new = [&](std::size_t i) {
    return i == 0 || requests[i].prompt_number != requests[i - 1].prompt_number;
  };
  std::size_t count = 0;
  for (; count < requests.size(); ++count) {
    if (!is_new(count)) continue;
    if (limited && images.bytes() > 0 && images.bytes() >= prompts.cache->limit()) break;
    images.push_back(prompts[requests[count].prompt_number].images, prompts.cache.get());
  }
  for (std::size_t i = 0, row = 0; i < count; ++i) {
    row += i > 0 && is_new(i);
    requests[i].images = images.row(row);
  }
  return count;
}

/// As engine.generate() for requests whose prompt_number is a row of `prompts`. If the images fill the cache, their
/// prompts are answered before the next images are decoded; no response depends on that. With `pauses` all images
/// are in memory together.
template <class Device, class Progress>
std::vector<rollout::response> answer_requests(rollout::engine<Device>& engine, const nn::causal_lm<Device>& model,
                                               nn::workspace<Device>& space, std::vector<rollout::request> requests,
                                               const data::prompt_dataset& prompts, const rollout::generation& settings,
                                               random_key key, Progress&& progress,
                                               rollout::turn_source* turns = nullptr,
                                               rollout::pause_points* pauses = nullptr) {
  std::vector<rollout::response> all;
  std::size_t first = 0;
  do {
    shown_images images;
    const std::size_t count = show_images(std::span(requests).subspan(first), prompts, images, pauses == nullptr);
    auto answers = engine.generate(
        model, space, std::span<const rollout::request>(requests).subspan(first, count), settings, key,
        [&](std::size_t done) { progress(first + done); }, turns, pauses);
    if (count == requests.size()) return answers;
    std::move(answers.begin(), answers.end(), std::back_inserter(all));
    first += count;
  } while (first < requests.size());
  return all;
}

}  // namespace train
RLCORE_END
