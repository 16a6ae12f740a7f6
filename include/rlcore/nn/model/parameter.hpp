// Model parameters: names, shapes and offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/parallel/balance.hpp"
#include "rlcore/parallel/layout/held_pieces.hpp"

RLCORE_BEGIN
namespace nn {

/// Which matrices of a model have bfloat16 values only.
enum class bf16_weights : unsigned char { none, embedding, all };

/// `name` is Hugging Face's, e.g. "model.layers.0.self_attn.q_proj.weight"; row-major, `size` floats from `offset`.
/// Under tensor parallelism it is the rectangle of `shape` at `start` of a tensor of `global_shape`; both are empty if
/// every rank has the whole tensor.
struct parameter {
  std::string name;
  std::vector<std::int64_t> shape;
  std::size_t offset = 0, size = 0;
  std::vector<std::int64_t> global_shape = {}, start = {};

  /// Is the tensor sharded? If not, all ranks hold the same values, which a global norm counts once.
  bool split() const noexcept { return !global_shape.empty(); }
  const std::vector<std::int64_t>& whole_shape() const noexcept { return split() ? global_shape : shape; }

  /// Calls f(first in the parameter, first in the whole tensor, count) for runs of elements that are contiguous in
  /// both, in order; positions count elements.
  template <class F>
  void for_runs(F&& f) const {
    if (!split()) return f(std::size_t{0}, std::uint64_t{0}, size);
    const std::size_t dimensions = shape.size();
    std::size_t inner = dimensions, run = 1;  // dimensions from `inner` on form one run
    while (inner > 0) {
      --inner;
      run *= static_cast<std::size_t>(shape[inner]);
      if (shape[inner] != global_shape[inner]) break;
    }
    for (std::size_t at = 0; at < size; at += run) {
      std::size_t rest = at / run;
      std::uint64_t place = 0, stride = 1;
      for (std::size_t d = dimensions; d-- > 0;) {
        std::uint64_t index = static_cast<std::uint64_t>(start[d]);
        if (d < inner) {
          index += rest % static_cast<std::size_t>(shape[d]);
          rest /= static_cast<std::size_t>(shape[d]);
        }
        place += stride * index;
        stride *= static_cast<std::uint64_t>(global_shape[d]);
      }
      f(at, place, run);
    }
  }
};

/// A rank's part of a parameter: all of it, or its rectangle.
inline parallel::shard_piece piece_of(const parameter& p) {
  std::vector<std::int64_t> start = p.start;
  start.resize(p.shape.size());
  return {p.name, p.whole_shape(), std::move(start), p.shape, 0, p.size};
}

/// The parameters of a layer with experts.
inline parallel::layer_sizes sizes_of_layer(const config& c) noexcept {
  parallel::layer_sizes s{c.hidden_size, c.num_attention_heads, c.num_key_value_heads, c.head_dim, c.intermediate_size};
  if (c.has_experts())
    s.intermediate = c.moe_intermediate_size, s.experts = c.num_experts, s.experts_per_token = c.num_experts_per_tok;
  return s;
}

/// `c` with its head_dim: 0 means hidden_size / num_attention_heads. Throws config_error, naming the key of
/// config.json, for inconsistent sizes.
config checked_sizes(config c);

}  // namespace nn

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_NN)
RLCORE_BEGIN
namespace nn {

RLCORE_INLINE config checked_sizes(config c) {
  const auto positive = [](std::int64_t value, const char* key) {
    if (value <= 0)
      throw config_error(std::string("model config: ") + key + " must be positive, got " + std::to_string(value));
  };
  positive(c.vocab_size, "vocab_size");
  positive(c.hidden_size, "hidden_size");
  positive(c.intermediate_size, "intermediate_size");
  positive(c.num_hidden_layers, "num_hidden_layers");
  positive(c.num_attention_heads, "num_attention_heads");
  positive(c.num_key_value_heads, "num_key_value_heads");
  positive(c.max_position_embeddings, "max_position_embeddings");
  if (c.head_dim == 0) {
    if (c.hidden_size % c.num_attention_heads != 0)
      throw config_error("model config: hidden_size " + std::to_string(c.hidden_size) +
                         " is not a multiple of num_attention_heads " + std::to_string(c.num_attention_heads) +
                         " and head_dim is not given");
    c.head_dim = c.hidden_size / c.num_attention_heads;
  }
  positive(c.head_dim, "head_dim");
  if (c.head_dim % 2 != 0)
    throw config_error("model config: head_dim must be even for rotary positions, got " + std::to_string(c.head_dim));
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    throw config_error("model config: num_attention_heads " + std::to_string(c.num_attention_heads) +
                       " is not a multiple of num_key_value_heads " + std::to_string(c.num_key_value_heads));
  if (c.vision) {
    const auto& s = c.mrope_section;
    if (s[0] < 0 || s[1] < 0 || s[2] < 0 || s[0] + s[1] + s[2] != c.head_dim / 2)
      throw config_error("model config: mrope_section is " + std::to_string(s[0]) + ", " + std::to_string(s[1]) + ", " +
                         std::to_string(s[2]) + "; expected three numbers that add up to head_dim / 2, " +
                         std::to_string(c.head_dim / 2));
    for (const auto& [id, key] : {std::pair{c.image_token_id, "image_token_id"}, {c.video_token_id, "video_token_id"}})
      if (id >= c.vocab_size)
        throw config_error(std::string("model config: ") + key + " " + std::to_string(id) +
                           " is outside of the vocabulary, 0 .. " + std::to_string(c.vocab_size - 1));
    if (c.vision->out_hidden_size != c.hidden_size)
      throw config_error("model config: vision_config.out_hidden_size " + std::to_string(c.vision->out_hidden_size) +
                         " is not hidden_size " + std::to_string(c.hidden_size));
  }
  if (c.has_experts()) {
    positive(c.num_experts, "num_experts");
    positive(c.num_experts_per_tok, "num_experts_per_tok");
    positive(c.moe_intermediate_size, "moe_intermediate_size");
    positive(c.decoder_sparse_step, "decoder_sparse_step");
    if (c.num_experts_per_tok > c.num_experts)
      throw config_error("model config: num_experts_per_tok " + std::to_string(c.num_experts_per_tok) +
                         " exceeds num_experts " + std::to_string(c.num_experts));
  }
  if (!(c.rms_norm_eps > 0 && c.rms_norm_eps < 1)) throw config_error("model config: rms_norm_eps must be in (0, 1)");
  if (!(c.rope_theta > 0 && c.rope_theta < 1e30)) throw config_error("model config: rope_theta must be in (0, 1e30)");
  check_settings(c.rope_scaling);
  return c;
}

}  // namespace nn
RLCORE_END
#endif
