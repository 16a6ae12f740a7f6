// Llama (Touvron et al. 2023) and Llama 3, 3.1, 3.2 and 3.3, the text models (Grattafiori et al. 2024).
#pragma once

#include "rlcore/nn/family/family_traits.hpp"

RLCORE_BEGIN
namespace nn {

/// No biases and no norms of queries and keys. Files older than Llama 2 have no rope_theta.
struct llama {
  static constexpr fixed_flag flags[] = {
      {"attention_bias", false}, {"mlp_bias", false}, {"use_sliding_window", false, true}};
  static constexpr family_traits traits{.model_type = "llama",
                                        .architecture = "Llama",
                                        .flags = flags,
                                        .default_rope_theta = 1e4,
                                        .published_rope_theta = 5e5};
};

}  // namespace nn
RLCORE_END
