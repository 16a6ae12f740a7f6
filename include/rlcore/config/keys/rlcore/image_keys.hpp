// Keys about pictures: the columns of verl, the processor, and our own.
#pragma once

#include "rlcore/config/flag.hpp"
#include "rlcore/config/key.hpp"

RLCORE_BEGIN
namespace trainer::keys {

inline constexpr key images[] = {
    {"data.image_key", text, "images", honoured, "column with the pictures that <image> marks stand for", not_empty},
    {"data.video_key", text, "videos", honoured, "column with videos; a row that has some is refused", not_empty},
    {"data.image_patch_size", integer, "null", honoured, "side of a patch in pixels; null: the model's, which is 14",
     between(14, 14)},
    {"data.mm_processor_kwargs", dictionary, "{}", honoured,
     "sizes of pictures instead of the model's: min_pixels, max_pixels, size.shortest_edge, size.longest_edge"},
    {"rlcore.image_cache_mb", integer, "512", honoured, "memory for prepared pictures, in MiB; no result depends on it",
     at_least(0)},
};

/// How pixels become what the tower reads.
inline constexpr key image_pixels[] = {
    {"rlcore.image_resampling", text, "torchvision", honoured,
     "bicubic resampling of pictures as torchvision (vLLM, transformers) or Pillow rounds it",
     words("torchvision|pillow")},
    {"rlcore.image_alpha", text, "drop", honoured,
     "a picture's opacity: dropped as in Pillow, or its colours laid on white as in qwen-vl-utils",
     words("drop|white")},
};

/// The name of OpenRLHF's flag, in programs with its command line.
inline constexpr flag image_flags[] = {{"image_key", "data.image_key"}, {"data.image_key", "data.image_key"}};

}  // namespace trainer::keys
RLCORE_END
