// What a forward pass leaves for its backward: pointers into the workspace, t = tokens.
#pragma once

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace nn {

/// What the backward of attention needs of its forward; t = tokens, all device memory.
struct attention_activations {
  float* qkv = nullptr;  ///< [t, (heads + 2 kv_heads) d], q and k normed and rotated
  float* raw = nullptr;  ///< [t, (heads + kv_heads) d], q and k before their norms; null without norms
  float *rstd_q = nullptr, *rstd_k = nullptr;  ///< [t, heads], [t, kv_heads]
  float* attended = nullptr;                   ///< [t, heads d]
  float* statistics = nullptr;                 ///< [t, heads, 2]
};

/// gate_up [t, 2 width] = [gate | up], activated [t, width].
struct mlp_activations {
  float *gate_up = nullptr, *activated = nullptr;
};

/// Everything that a layer's backward needs besides its input [t, hidden].
struct block_activations {
  float *normed = nullptr, *rstd = nullptr;  ///< input of the attention
  attention_activations attended;
  float* middle = nullptr;  ///< x + attention
  float *middle_normed = nullptr, *middle_rstd = nullptr;
  mlp_activations mixed;
};

/// Gradients of activations that cannot take the place of what they belong to; shared by all layers.
struct block_scratch {
  float *dqkv = nullptr, *dattended = nullptr;
};

/// Gathered rows [n, hidden] and their norms.
struct head_activations {
  float *rows = nullptr, *rstd = nullptr, *normed = nullptr;
};

}  // namespace nn
RLCORE_END
