// What a layer of a model costs.
#pragma once

#include "rlcore/nn/config.hpp"
#include "rlcore/parallel/balance.hpp"

RLCORE_BEGIN
namespace nn {

/// Of a layer with experts, if the model has them.
inline parallel::layer_sizes sizes_of_layer(const config& c) noexcept {
  parallel::layer_sizes s{c.hidden_size, c.num_attention_heads, c.num_key_value_heads, c.head_dim, c.intermediate_size};
  if (c.has_experts())
    s.intermediate = c.moe_intermediate_size, s.experts = c.num_experts, s.experts_per_token = c.num_experts_per_tok;
  return s;
}

}  // namespace nn
RLCORE_END
