// Qwen2 and Qwen2.5 (Yang et al. 2024).
#pragma once

#include "rlcore/nn/family/family_traits.hpp"

RLCORE_BEGIN
namespace nn {

/// Biases of q, k and v, which no key of config.json turns off.
struct qwen2 {
  static constexpr fixed_flag flags[] = {{"use_sliding_window", false}, {"attention_bias", true, true}};
  static constexpr family_traits traits{
      .model_type = "qwen2", .architecture = "Qwen2", .qkv_bias = true, .o_bias = false, .flags = flags};
};

}  // namespace nn
RLCORE_END
