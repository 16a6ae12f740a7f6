// Packed prompts and answers with the prompts' images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rlcore/data/image_cache.hpp"
#include "rlcore/data/image_file.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/trainer/preference/packed_answers.hpp"
#include "rlcore/training/shown_pictures.hpp"

RLCORE_BEGIN
namespace trainer {

/// packed_answers whose prompts may have images.
struct shown_answers : packed_answers {
  shown_pictures pictures;

  /// The input of a pass.
  nn::input input() const noexcept { return pictures.with(inputs); }

  void clear() { packed_answers::clear(), pictures.clear(); }
  /// Appends a row of prompt and answer; `cache` makes the patches of its images.
  void push_back(std::span<const std::int32_t> tokens, std::size_t prompt_length,
                 std::span<const data::image_pointer> images, data::image_cache* cache) {
    packed_answers::push_back(tokens, prompt_length);
    pictures.push_back(images, cache);
  }
};

}  // namespace trainer
RLCORE_END
