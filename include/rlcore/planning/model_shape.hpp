// Sizes of a model, and those of known models.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/nn/vision/vision_config.hpp"
#include "rlcore/nn/vision/vision_cost.hpp"
#include "rlcore/parallel/balance.hpp"

RLCORE_BEGIN
namespace train::planning {

/// Names as in config.json. experts 0: a dense model; otherwise every layer has `experts` of `intermediate_size`
/// (moe_intermediate_size), `experts_per_token` active per token.
struct model_shape {
  std::string name;
  std::int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, layers = 0, heads = 0, kv_heads = 0,
               head_dim = 0;
  bool tied = false, attention_bias = false, head_norms = false;
  std::int64_t experts = 0, experts_per_token = 0;
  std::optional<nn::vision_config> tower = {};  ///< vision tower
  double stored_bytes = 2;                      ///< of a value of its files: 2 for bfloat16

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
  /// The matrices of a layer that get adapters, or what one of `tensor` ranks has of them; experts are whole.
  std::int64_t adapted_parameters(std::int64_t tensor = 1) const noexcept {
    return 2 * hidden_size * (query_width() + kv_width()) / tensor +
           (experts > 0 ? experts * expert_parameters() : expert_parameters() / tensor);
  }
  /// A layer's adapters of rank r, or what one of `tensor` ranks has of them: r (inputs + outputs) for each matrix, of
  /// which the dimension that is split is that of the rank.
  std::int64_t adapter_parameters(std::int64_t r, std::int64_t tensor = 1) const noexcept {
    const std::int64_t middle = experts > 0 ? intermediate_size : intermediate_size / tensor;
    return r * (4 * hidden_size + (2 * query_width() + 2 * kv_width()) / tensor +
                std::max<std::int64_t>(experts, 1) * 3 * (hidden_size + middle));
  }
  /// A layer's matrices B of adapters, one for each linear layer: projections that are one product have theirs side by
  /// side, with zeros between.
  std::int64_t adapter_blocks(std::int64_t r, std::int64_t tensor = 1) const noexcept {
    const std::int64_t middle = experts > 0 ? intermediate_size : intermediate_size / tensor;
    return r * (3 * (query_width() + 2 * kv_width()) / tensor + hidden_size +
                std::max<std::int64_t>(experts, 1) * (4 * middle + hidden_size));
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

/// Their shapes, Qwen2.5 before Qwen3 before Llama.
const std::vector<model_shape>& known_models();

/// Finds a model by name, ignoring a hub organization prefix and suffixes such as "-Instruct".
const model_shape* find_known_model(std::string_view name);

}  // namespace train::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace train::planning {

RLCORE_INLINE const std::vector<model_shape>& known_models() {
  const auto qwen25 = [](const char* name, std::int64_t vocabulary, std::int64_t h, std::int64_t i, std::int64_t layers,
                         std::int64_t heads, std::int64_t kv, bool tied) {
    return model_shape{name, vocabulary, h, i, layers, heads, kv, h / heads, tied, true, false, 0, 0};
  };
  const auto with_tower = [](const char* name, model_shape text, std::int64_t intermediate) {
    text.name = name;
    text.tower = nn::vision_config{.intermediate_size = intermediate, .out_hidden_size = text.hidden_size};
    return text;
  };
  const auto qwen3 = [](const char* name, std::int64_t h, std::int64_t i, std::int64_t layers, std::int64_t heads,
                        std::int64_t kv, bool tied, std::int64_t experts = 0) {
    return model_shape{name, 151936, h, i, layers, heads, kv, 128, tied, false, true, experts, experts == 0 ? 0 : 8};
  };
  const auto llama = [](const char* name, std::int64_t h, std::int64_t i, std::int64_t layers, std::int64_t heads,
                        bool tied = false) {
    return model_shape{name, 128256, h, i, layers, heads, 8, h / heads, tied, false, false, 0, 0};
  };
  static const std::vector<model_shape> models = {
      qwen25("Qwen2.5-0.5B", 151936, 896, 4864, 24, 14, 2, true),
      qwen25("Qwen2.5-1.5B", 151936, 1536, 8960, 28, 12, 2, true),
      qwen25("Qwen2.5-3B", 151936, 2048, 11008, 36, 16, 2, true),
      qwen25("Qwen2.5-7B", 152064, 3584, 18944, 28, 28, 4, false),
      qwen25("Qwen2.5-14B", 152064, 5120, 13824, 48, 40, 8, false),
      qwen25("Qwen2.5-32B", 152064, 5120, 27648, 64, 40, 8, false),
      qwen25("Qwen2.5-72B", 152064, 8192, 29568, 80, 64, 8, false),
      with_tower("Qwen2.5-VL-3B", qwen25("", 151936, 2048, 11008, 36, 16, 2, true), 3420),
      with_tower("Qwen2.5-VL-7B", qwen25("", 152064, 3584, 18944, 28, 28, 4, false), 3420),
      with_tower("Qwen2.5-VL-32B", qwen25("", 152064, 5120, 27648, 64, 40, 8, false), 3456),
      qwen3("Qwen3-0.6B", 1024, 3072, 28, 16, 8, true),
      qwen3("Qwen3-1.7B", 2048, 6144, 28, 16, 8, true),
      qwen3("Qwen3-4B", 2560, 9728, 36, 32, 8, true),
      qwen3("Qwen3-8B", 4096, 12288, 36, 32, 8, false),
      qwen3("Qwen3-14B", 5120, 17408, 40, 40, 8, false),
      qwen3("Qwen3-32B", 5120, 25600, 64, 64, 8, false),
      qwen3("Qwen3-30B-A3B", 2048, 768, 48, 32, 4, false, 128),
      qwen3("Qwen3-235B-A22B", 4096, 1536, 94, 64, 4, false, 128),
      llama("Llama-3.2-1B", 2048, 8192, 16, 32, true),
      llama("Llama-3.2-3B", 3072, 8192, 28, 24, true),
      llama("Llama-3.1-8B", 4096, 14336, 32, 32),
      llama("Llama-3.1-70B", 8192, 28672, 80, 64),
      llama("Llama-3.3-70B", 8192, 28672, 80, 64),
      llama("Llama-3.1-405B", 16384, 53248, 126, 128),
  };
  return models;
}

RLCORE_INLINE const model_shape* find_known_model(std::string_view name) {
  if (const std::size_t slash = name.rfind('/'); slash != name.npos) name.remove_prefix(slash + 1);
  for (const std::string_view ending : {"-Instruct", "-Base", "-Instruct-2507", "-Thinking-2507"})
    if (name.ends_with(ending)) {
      name.remove_suffix(ending.size());
      break;
    }
  for (const model_shape& m : known_models())
    if (m.name == name) return &m;
  return nullptr;
}

}  // namespace train::planning
RLCORE_END
#endif
