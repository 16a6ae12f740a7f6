// What distinguishes one family of models from another.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace nn {

/// A key of config.json whose other value would be mathematics that this library does not have. It is refused.
/// `implied`: transformers' config of the family has no such key, and write_config() writes none.
struct fixed_flag {
  std::string_view key;
  bool value = false, implied = false;
};

/// Names of a layer's parameters behind "model.layers.N.", without ".weight". The projections are q_proj, k_proj,
/// v_proj and o_proj of self_attn and gate_proj, up_proj and down_proj of mlp in all families: adapters name them.
struct layer_names {
  std::string_view input_norm = "input_layernorm", post_attention_norm = "post_attention_layernorm",
                   q_norm = "self_attn.q_norm", k_norm = "self_attn.k_norm", router = "mlp.gate",
                   experts = "mlp.experts";
};

/// What the files of a family with a vision tower say besides (config::vision). The ids are those of transformers'
/// config, where a file leaves them out.
struct vision_traits {
  std::string_view text_type;       ///< model_type of text_config, where files have the language model's members
  std::string_view tower_type;      ///< model_type of vision_config
  std::string_view old_tower_type;  ///< the same in files of transformers 4
  std::int32_t image_token_id = -1, video_token_id = -1, vision_start_token_id = -1, vision_end_token_id = -1;
  /// The texts of these tokens in the tokenizer.
  std::string_view image_token = "<|image_pad|>", video_token = "<|video_pad|>", vision_start = "<|vision_start|>",
                   vision_end = "<|vision_end|>";
};

/// A family of decoders with RMS norms before attention and MLP, rotary positions and grouped queries. What a family
/// does not say is as here.
struct family_traits {
  std::string_view model_type;            ///< of config.json, e.g. "llama"
  std::string_view architecture;          ///< of config.json, what stands before ForCausalLM, e.g. "Llama"
  std::string_view task = "ForCausalLM";  ///< what stands behind it where the output is logits

  // The mathematics.
  bool qkv_bias = false;                 ///< q_proj, k_proj and v_proj have biases
  bool o_bias = true;                    ///< where those have, o_proj has one
  bool qk_norms = false;                 ///< queries and keys have an RMS norm of each head
  bool experts = false;                  ///< mixtures of experts in place of the MLP of some or all layers
  std::string_view activation = "silu";  ///< hidden_act: down_proj(activation(gate_proj x) * up_proj x)
  layer_names names{};
  const vision_traits* vision =
      nullptr;  ///< the family has a vision tower and turns by mrope_section; null: text alone

  // config.json.
  std::span<const fixed_flag> flags{};
  std::int64_t default_head_dim = 0;  ///< of transformers' config; 0: hidden_size / num_attention_heads
  double default_rope_theta = 0;      ///< of transformers' config, where files leave rope_theta out; 0: none does
  double published_rope_theta = 1e6;  ///< of a new model
};

/// A family as a type: `static constexpr family_traits traits`. What names one at compile time is the type, as in
/// `nn::config c{.model = nn::llama{}}`.
template <class F>
concept model_family = requires {
  { F::traits } -> std::same_as<const family_traits&>;
};

}  // namespace nn
RLCORE_END
