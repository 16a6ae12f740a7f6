// Qwen2.5-VL vision tower: patches -> blocks with window or full attention -> one row per token.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/nn/layer/block.hpp"
#include "rlcore/nn/layer/linear.hpp"
#include "rlcore/nn/layer/norm.hpp"
#include "rlcore/nn/vision/vision_config.hpp"

RLCORE_BEGIN
namespace nn {

/// The layout of the tower's parameters in the model. Merger: norm, the patches of a token side by side, a linear
/// layer, GELU, a linear layer to the width of the language model.
struct vision_tower {
  vision_config settings;
  linear patch_embed;
  std::vector<block> blocks;
  norm merger_norm;
  linear merger_input, merger_output;

  vision_tower() = default;
  /// add(name, shape) returns where the parameter of Hugging Face's name begins. Throws config_error.
  template <class Add>
  vision_tower(const vision_config& c, Add&& add) : settings(c) {
    check_settings(c);
    const std::int64_t h = c.hidden_size, wide = h * c.merged();
    const auto layer = [&](const std::string& name, std::int64_t outputs, std::int64_t inputs) {
      const std::size_t weight = add(name + ".weight", {outputs, inputs});
      return linear{weight, add(name + ".bias", {outputs}), outputs, inputs};
    };
    patch_embed = {
        add("visual.patch_embed.proj.weight", {h, c.in_channels, c.temporal_patch_size, c.patch_size, c.patch_size}),
        no_parameter, h, c.patch()};
    for (std::int64_t l = 0; l < c.depth; ++l) {
      const std::string name = "visual.blocks." + std::to_string(l) + ".";
      block b;
      b.input_norm = {add(name + "norm1.weight", {h}), h, 1, c.rms_norm_eps};
      b.post_attention_norm = {add(name + "norm2.weight", {h}), h, 1, c.rms_norm_eps};
      b.self_attention.qkv = layer(name + "attn.qkv", 3 * h, h);
      b.self_attention.output = layer(name + "attn.proj", h, h);
      b.self_attention.shape = {c.num_heads, c.num_heads, c.head_dim(),
                                static_cast<float>(1 / std::sqrt(static_cast<double>(c.head_dim()))), false};
      // One product computes gate and up: weights side by side, then biases.
      const std::size_t gate = add(name + "mlp.gate_proj.weight", {c.intermediate_size, h});
      add(name + "mlp.up_proj.weight", {c.intermediate_size, h});
      const std::size_t gate_bias = add(name + "mlp.gate_proj.bias", {c.intermediate_size});
      add(name + "mlp.up_proj.bias", {c.intermediate_size});
      b.feed_forward.gate_up = {gate, gate_bias, 2 * c.intermediate_size, h};
      b.feed_forward.down = layer(name + "mlp.down_proj", h, c.intermediate_size);
      blocks.push_back(std::move(b));
    }
    merger_norm = {add("visual.merger.ln_q.weight", {h}), h, 1, c.rms_norm_eps};
    merger_input = layer("visual.merger.mlp.0", wide, wide);
    merger_output = layer("visual.merger.mlp.2", c.out_hidden_size, wide);
  }

  /// Calls f(linear) for the layers that support LoRA: all but patch_embed, which is a convolution.
  template <class F>
  void for_adaptable(F&& f) const {
    for (const block& b : blocks) b.for_linears(f);
    if (!blocks.empty()) f(merger_input), f(merger_output);
  }
  /// Calls f(linear) for all linear layers, in the order of their weights.
  template <class F>
  void for_linears(F&& f) {
    f(patch_embed);
    for (block& b : blocks) b.for_linears(f);
    f(merger_input), f(merger_output);
  }
};

}  // namespace nn
RLCORE_END
