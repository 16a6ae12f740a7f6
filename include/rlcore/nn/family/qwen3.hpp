// Qwen3, dense (Yang et al. 2025).
#pragma once

#include "rlcore/nn/family/family_traits.hpp"

RLCORE_BEGIN
namespace nn {

/// Norms of queries and keys instead of Qwen2's biases; heads as wide as head_dim says.
struct qwen3 {
  static constexpr fixed_flag flags[] = {{"use_sliding_window", false}, {"attention_bias", false}};
  static constexpr family_traits traits{
      .model_type = "qwen3", .architecture = "Qwen3", .qk_norms = true, .flags = flags, .default_head_dim = 128};
};

}  // namespace nn
RLCORE_END
