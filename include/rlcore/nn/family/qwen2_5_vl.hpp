// Qwen2.5-VL (Bai et al. 2025): Qwen2.5 that reads pictures.
#pragma once

#include "rlcore/nn/family/family_traits.hpp"

RLCORE_BEGIN
namespace nn {

/// Qwen2's language model with its biases of q, k and v, and a vision tower.
struct qwen2_5_vl {
  static constexpr fixed_flag flags[] = {{"use_sliding_window", false}, {"attention_bias", true, true}};
  static constexpr vision_traits vision{.text_type = "qwen2_5_vl_text",
                                        .tower_type = "qwen2_5_vl_vision",
                                        .old_tower_type = "qwen2_5_vl",
                                        .image_token_id = 151655,
                                        .video_token_id = 151656,
                                        .vision_start_token_id = 151652,
                                        .vision_end_token_id = 151653};
  static constexpr family_traits traits{.model_type = "qwen2_5_vl",
                                        .architecture = "Qwen2_5_VL",
                                        .task = "ForConditionalGeneration",
                                        .qkv_bias = true,
                                        .o_bias = false,
                                        .vision = &vision,
                                        .flags = flags,
                                        .default_rope_theta = 1e6};
};

}  // namespace nn
RLCORE_END
