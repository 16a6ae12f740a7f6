// Saved activations of a forward pass: pointers into the workspace, t = tokens.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

struct routing;

/// Saved activations of attention; t = tokens, all device memory.
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

/// Saved activations of experts, rows in the order of `routes` (routing.hpp): gate_up [slots, 2 width], activated
/// [slots, width]. `logits` [t, experts], `rows` [slots, hidden], `slopes` [slots, width] and `factors` [2, slots] are
/// scratch within a call, shared by all layers. `row` is the first row of the pass among the forward's rows.
struct moe_activations {
  routing* routes = nullptr;
  float *gate_up = nullptr, *activated = nullptr;
  float *rows = nullptr, *slopes = nullptr, *factors = nullptr, *logits = nullptr;
  extent_t row = 0;
};

/// Saved activations of a layer, without its input [t, hidden].
struct block_activations {
  float *normed = nullptr, *rstd = nullptr;  ///< input of the attention
  attention_activations attended;
  float* middle = nullptr;  ///< x + attention
  float *post_attention_normed = nullptr, *middle_rstd = nullptr;
  mlp_activations mixed;
  moe_activations routed;  ///< null in a layer without experts
};

/// Gradients of activations that cannot overwrite the activations; shared by all layers.
struct block_scratch {
  float *dqkv = nullptr, *dattended = nullptr;
};

/// Gathered rows [n, hidden] and their norms.
struct head_activations {
  float *rows = nullptr, *rstd = nullptr, *normed = nullptr;
};

}  // namespace nn
RLCORE_END
