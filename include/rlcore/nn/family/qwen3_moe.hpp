// Qwen3-MoE (Yang et al. 2025).
#pragma once

#include "rlcore/nn/family/family_traits.hpp"

RLCORE_BEGIN
namespace nn {

/// Qwen3 with experts in place of the MLP of some or all layers.
struct qwen3_moe {
  static constexpr fixed_flag flags[] = {{"use_sliding_window", false}, {"attention_bias", false}};
  static constexpr family_traits traits{
      .model_type = "qwen3_moe", .architecture = "Qwen3Moe", .qk_norms = true, .experts = true, .flags = flags};
};

}  // namespace nn
RLCORE_END
