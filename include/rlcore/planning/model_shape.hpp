// Model shape and parameter counts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/nn/vision/vision_config.hpp"
#include "rlcore/nn/vision/vision_cost.hpp"
#include "rlcore/parallel/balance.hpp"

RLCORE_BEGIN
namespace trainer::planning {

/// Names as in config.json. experts 0: a dense model; otherwise every layer has `experts` of `intermediate_size`
/// (moe_intermediate_size), `experts_per_token` active per token.
struct model_shape {
  std::string name;
  std::int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, layers = 0, heads = 0, kv_heads = 0,
               head_dim = 0;
  bool tied = false, attention_bias = false, head_norms = false;
  std::int64_t experts = 0, experts_per_token = 0;
  std::optional<nn::vision_config> tower = {};  ///< vision tower

  std::int64_t query_width() const noexcept { return heads * head_dim; }
  std::int64_t kv_width() const noexcept { return kv_heads * head_dim; }

  /// H (nq + 2 nkv) d + nq d H, with biases of q, k, v and the norms of heads.
  std::int64_t attention_parameters() const noexcept {
    return hidden_size * (2 * query_width() + 2 * kv_width()) + (attention_bias ? query_width() + 2 * kv_width() : 0) +
           (head_norms ? 2 * head_dim : 0);
  }
  std::int64_t expert_parameters() const noexcept { return 3 * hidden_size * intermediate_size; }
  std::int64_t router_parameters() const noexcept { return experts * hidden_size; }
  /// All experts, or the one feed-forward of a dense model.
  std::int64_t feed_forward_parameters() const noexcept {
    return experts == 0 ? expert_parameters() : experts * expert_parameters() + router_parameters();
  }
  std::int64_t layer_parameters() const noexcept {
    return attention_parameters() + feed_forward_parameters() + 2 * hidden_size;
  }
  /// The parameters of a layer outside the expert group: those for tensor and data parallelism.
  std::int64_t dense_layer_parameters() const noexcept {
    return layer_parameters() - (experts == 0 ? 0 : experts * expert_parameters());
  }
  std::int64_t embedding_parameters() const noexcept { return vocab_size * hidden_size; }
  /// The final norm and, if it is a matrix of its own, the head.
  std::int64_t head_parameters() const noexcept { return hidden_size + (tied ? 0 : embedding_parameters()); }
  std::int64_t parameters() const noexcept {
    return embedding_parameters() + layers * layer_parameters() + head_parameters() + tower_parameters();
  }
  std::int64_t tower_parameters() const noexcept { return tower ? tower->parameters() : 0; }
  std::int64_t expert_parameters_of_all() const noexcept {
    return experts == 0 ? 0 : layers * experts * expert_parameters();
  }
  /// Parameters active for one token: all but the experts not selected.
  std::int64_t active_parameters() const noexcept {
    return parameters() - (experts == 0 ? 0 : layers * (experts - experts_per_token) * expert_parameters());
  }

  parallel::layer_sizes layer() const noexcept {
    return {hidden_size, heads, kv_heads, head_dim, intermediate_size, experts, experts_per_token};
  }
  /// Weights of the matrix products of a token: in the layers, and including the head.
  double product_weights() const noexcept { return static_cast<double>(layers) * parallel::active_weights(layer()); }
  double head_weights() const noexcept { return static_cast<double>(embedding_parameters()); }
  /// Operations of causal attention over a sequence of s tokens, all layers, forward: 2 L nq d s^2.
  double attention_operations(double s) const noexcept {
    return 2 * static_cast<double>(layers * query_width()) * s * s;
  }
  /// Operations of one forward pass over a sequence of s tokens, log-probs of `scored` of them included.
  double forward_operations(double s, double scored) const noexcept {
    return 2 * product_weights() * s + 2 * head_weights() * scored + attention_operations(s);
  }
  /// Operations of the tower, forward, for an image of `tokens` tokens: products, windows, and full attention.
  double tower_operations(double tokens) const noexcept {
    if (!tower) return 0;
    const auto f = [](std::int64_t n) { return static_cast<double>(n); };
    const double patches = tokens * f(tower->merged()), h = f(tower->hidden_size), wide = h * f(tower->merged());
    const double full = f(std::ssize(tower->fullatt_block_indexes)), windows = f(tower->depth) - full;
    const double window = f(tower->window() * tower->window() * tower->merged());
    return 2 * patches * (h * f(tower->patch()) + f(tower->depth) * h * (4 * h + 3 * f(tower->intermediate_size))) +
           4 * patches * h * (windows * std::min(window, patches) + full * patches) +
           2 * tokens * wide * (wide + f(tower->out_hidden_size));
  }
  /// Values that the tower keeps of such an image until its backward: the input of each block, the activations of one
  /// block (with `recompute`) or of all, patches, and the merger's.
  double tower_values(double tokens, bool recompute) const noexcept {
    const auto keeps = recompute ? nn::tower_keeps::inputs : nn::tower_keeps::activations;
    return tower ? nn::vision_values(*tower, tokens, keeps) : 0;
  }
  /// Keys and values of one token in values: 2 L nkv d.
  double kv_values() const noexcept { return 2 * static_cast<double>(layers * kv_width()); }
};

}  // namespace trainer::planning
RLCORE_END
