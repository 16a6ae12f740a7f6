// Loads and saves model weights: Hugging Face folder <-> flat array of floats.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/tensor_folder.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/parallel/layout/held_pieces.hpp"

RLCORE_BEGIN
namespace checkpoint {

inline constexpr std::string_view embedding_name = "model.embed_tokens.weight", output_name = "lm_head.weight";

/// Throws std::invalid_argument when a parameter reaches past `size` weights.
void check_extent(std::span<const nn::parameter> parameters, std::size_t size);

/// A tied model has no output matrix of its own; some folders store the embedding a second time under its name. Only a
/// copy that is equal to the bit is accepted, in the place of `piece` of the embedding. Throws format_error.
void check_tied_output(const tensor_folder& folder, const shard_piece& piece);

/// Does `name` belong to an expert on another rank? True if `expected` has other experts of the same layer (expert
/// parallelism).
bool is_other_expert(const std::string& name, const std::set<std::string, std::less<>>& expected);

/// Throws format_error, naming the tensor and the nearest name, unless the folder has exactly the parameters with their
/// whole shapes, except for tensors whose name `ignored` accepts, a tied model's copy of its output, and experts of
/// other ranks.
template <class Ignored>
void check_tensors(const tensor_folder& folder, std::span<const nn::parameter> parameters, Ignored&& ignored) {
  const std::filesystem::path& path = folder.path();
  std::set<std::string, std::less<>> expected;
  for (const nn::parameter& p : parameters) expected.insert(p.name);
  const bool tied = !expected.contains(output_name);
  for (const nn::parameter& p : parameters) {
    if (!folder.contains(p.name)) {
      const bool output = p.name == output_name;
      throw format_error(path.string() + ": tensor '" + p.name + "' of shape " + shape_text(p.whole_shape()) +
                         " is missing" +
                         (output ? " (is tie_word_embeddings in config.json meant to be true?)"
                                 : did_you_mean(p.name, folder.names())));
    }
    if (const tensor_info& stored = folder.info(p.name); stored.shape != p.whole_shape())
      throw format_error(path.string() + ": tensor '" + p.name + "' has shape " + shape_text(stored.shape) +
                         "; the model needs " + shape_text(p.whole_shape()));
  }
  for (const std::string& name : folder.names())
    if (!expected.contains(name) && !ignored(name) && !is_other_expert(name, expected) &&
        !(tied && name == output_name && expected.contains(embedding_name)))
      throw format_error(path.string() + ": tensor '" + data::printable(name) + "' is not part of the model" +
                         did_you_mean(name, expected));
}

/// read_config() of a folder with weights. Throws format_error, naming the key, if the sizes are not those of the
/// stored tensors: before a model of these sizes takes any memory.
nn::config read_stored_config(const std::filesystem::path& folder);

/// Throws format_error, naming folder and tensor, if a value is NaN or infinite. A model with such a weight has no
/// answer to anything.
void check_finite(const std::filesystem::path& folder, std::string_view tensor, std::span<const float> values);

/// Fills `values` from a piece of a tensor: with all cores, or one thread for the shards of a run.
void read_piece(const tensor_folder& folder, const shard_piece& piece, std::span<float> values,
                const rlcore::threads& pool);

/// Fills `weights` from the tensors of an open folder (F32, F16 or BF16) that check_tensors() accepts; of a sharded
/// tensor reads only this rank's part. Throws format_error, also for a weight that is not finite.
template <class Ignored>
void load_weights(const tensor_folder& folder, std::span<const nn::parameter> parameters, std::span<float> weights,
                  Ignored&& ignored) {
  check_extent(parameters, weights.size());
  check_tensors(folder, parameters, ignored);
  const bool tied =
      std::none_of(parameters.begin(), parameters.end(), [](const auto& p) { return p.name == output_name; });
  const rlcore::threads pool;
  for (const nn::parameter& p : parameters) {
    const auto values = weights.subspan(p.offset, p.size);
    read_piece(folder, piece_of(p), values, pool);
    if (tied && p.name == embedding_name && folder.contains(output_name) && !ignored(std::string(output_name)))
      check_tied_output(folder, piece_of(p));
  }
}

/// Fills `weights` from the folder's safetensors (F32, F16 or BF16). The folder must have exactly the parameters, with
/// their shapes. Throws file_error or format_error naming the tensor and the nearest name.
inline void load_weights(const std::filesystem::path& path, std::span<const nn::parameter> parameters,
                         std::span<float> weights) {
  load_weights(tensor_folder(path), parameters, weights, [](const std::string&) { return false; });
}

/// Which matrices of a folder are stored as bfloat16.
inline nn::bf16_weights bf16_weights_of(const tensor_folder& folder) {
  const auto is_bf16 = [&](std::string_view name) { return folder.info(name).dtype == stored_type::bf16; };
  const std::vector<std::string> names = folder.names();
  if (std::ranges::all_of(names, [&](const std::string& n) { return folder.info(n).shape.size() < 2 || is_bf16(n); }))
    return nn::bf16_weights::all;
  return is_bf16(embedding_name) ? nn::bf16_weights::embedding : nn::bf16_weights::none;
}

/// The weights of a folder, with random access by index in the model's flat array.
class stored_weights {
 public:
  /// `parameters` are all parameters of a model and must outlive this. Throws what load_weights() throws.
  stored_weights(const std::filesystem::path& path, std::span<const nn::parameter> parameters);
  /// Which of them are stored as bfloat16.
  nn::bf16_weights rounded() const { return bf16_weights_of(folder_); }
  /// Fills `values` with the weights from number `first` on. Several threads may call it.
  void read(std::size_t first, std::span<float> values) const;

 private:
  tensor_folder folder_;
  std::span<const nn::parameter> parameters_;
  mutable std::mutex shards_;
};

/// Writes the parameters as model.safetensors, or as shards with an index when `max_shard_bytes` is positive and they
/// need more. `type` is F32 (exact), F16 or BF16 (rounded to nearest even). Throws std::invalid_argument for parts of
/// parameters: one rank cannot write a sharded model.
void save_weights(const std::filesystem::path& folder, std::span<const nn::parameter> parameters,
                  std::span<const float> weights, stored_type type = stored_type::f32,
                  std::uint64_t max_shard_bytes = 0);

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint {

RLCORE_INLINE void check_extent(std::span<const nn::parameter> parameters, std::size_t size) {
  for (const nn::parameter& p : parameters) {
    std::size_t elements = 1;
    for (const std::int64_t extent : p.shape) elements *= static_cast<std::size_t>(extent);
    if (elements != p.size || p.offset > size || p.size > size - p.offset)
      throw std::invalid_argument("rlcore: parameter '" + p.name + "' " + shape_text(p.shape) + " at " +
                                  std::to_string(p.offset) + " does not fit " + std::to_string(size) + " weights");
  }
}

RLCORE_INLINE void check_tied_output(const tensor_folder& folder, const shard_piece& piece) {
  const std::string where = folder.path().string() + ": tensor '" + std::string(output_name) + "' ";
  if (folder.info(output_name).shape != folder.info(embedding_name).shape)
    throw format_error(where + "of shape " + shape_text(folder.info(output_name).shape) +
                       " in a model with tied embeddings; expected none, or the embedding's shape " +
                       shape_text(folder.info(embedding_name).shape));
  const std::size_t size = piece.size(), block = std::min<std::size_t>(size, std::size_t{1} << 16);
  std::vector<float> stored(block), values(block);
  for (std::size_t i = 0; i < size; i += block) {
    const std::size_t n = std::min(block, size - i);
    shard_piece copy = parallel::part_of(piece, i, i + n);
    folder.read_f32(copy, std::span(values).first(n));
    copy.tensor = output_name;
    folder.read_f32(copy, std::span(stored).first(n));
    if (std::memcmp(stored.data(), values.data(), n * sizeof(float)) != 0)
      throw format_error(where + "differs from '" + std::string(embedding_name) +
                         "' although the model ties them (tie_word_embeddings is true)");
  }
}

RLCORE_INLINE bool is_other_expert(const std::string& name, const std::set<std::string, std::less<>>& expected) {
  constexpr std::string_view experts = ".mlp.experts.";
  const std::size_t at = name.find(experts);
  if (at == std::string::npos) return false;
  const std::string layer = name.substr(0, at + experts.size());
  const std::size_t number = name.find_first_not_of("0123456789", layer.size());
  const auto first = expected.lower_bound(layer);
  return number != std::string::npos && number > layer.size() && name[number] == '.' && first != expected.end() &&
         first->starts_with(layer);
}

RLCORE_INLINE nn::config read_stored_config(const std::filesystem::path& folder) {
  nn::config config = read_config(folder);
  const nn::config c = nn::checked_sizes(config);
  const tensor_folder stored(folder);
  const std::vector<std::string> names = stored.names();
  const auto fail = [&](const std::string& key, std::int64_t value, const std::string& what) {
    throw format_error((folder / "config.json").string() + ": " + key + " is " + std::to_string(value) + ", but " +
                       what);
  };
  const auto check_count = [&](const std::string& key, std::int64_t count, const std::string& before) {
    const std::string last = before + std::to_string(count - 1) + ".";
    if (std::ranges::none_of(names, [&](const std::string& name) { return name.find(last) != name.npos; }))
      fail(key, count, "the weights have no tensor '..." + last + "...'");
  };
  const auto check_extent = [&](const std::string& key, std::int64_t value, const std::string& end,
                                std::size_t dimension, std::int64_t extent) {
    const auto name = std::ranges::find_if(names, [&](const std::string& n) { return n.ends_with(end); });
    if (name == names.end()) return;  // check_tensors() says so
    const std::vector<std::int64_t>& shape = stored.info(*name).shape;
    if (dimension < shape.size() && shape[dimension] != extent)
      fail(key, value, "tensor '" + data::printable(*name) + "' has shape " + shape_text(shape));
  };
  check_count("num_hidden_layers", c.num_hidden_layers, "layers.");
  check_extent("vocab_size", c.vocab_size, "embed_tokens.weight", 0, c.vocab_size);
  check_extent("hidden_size", c.hidden_size, "embed_tokens.weight", 1, c.hidden_size);
  check_extent("num_attention_heads", c.num_attention_heads, "layers.0.self_attn.q_proj.weight", 0,
               c.num_attention_heads * c.head_dim);
  check_extent("num_key_value_heads", c.num_key_value_heads, "layers.0.self_attn.k_proj.weight", 0,
               c.num_key_value_heads * c.head_dim);
  check_extent("intermediate_size", c.intermediate_size, "layers.0.mlp.gate_proj.weight", 0, c.intermediate_size);
  if (c.has_experts()) {
    check_count("num_experts", c.num_experts, "mlp.experts.");
    check_extent("moe_intermediate_size", c.moe_intermediate_size, "mlp.experts.0.gate_proj.weight", 0,
                 c.moe_intermediate_size);
  }
  if (c.vision) {
    const nn::vision_config& v = *c.vision;
    check_count("vision_config.depth", v.depth, "blocks.");
    check_extent("vision_config.hidden_size", v.hidden_size, "blocks.0.attn.qkv.weight", 1, v.hidden_size);
    check_extent("vision_config.intermediate_size", v.intermediate_size, "blocks.0.mlp.gate_proj.weight", 0,
                 v.intermediate_size);
  }
  return config;
}

RLCORE_INLINE void check_finite(const std::filesystem::path& folder, std::string_view tensor,
                                std::span<const float> values) {
  constexpr std::uint32_t exponent = 0x7f800000;  // all of its bits are set in NaN and infinities alone
  std::uint32_t bad = 0;
  for (const float x : values)
    bad |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(x) & exponent) == exponent);
  if (bad == 0) return;
  const float found = *std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
  throw format_error(folder.string() + ": tensor '" + data::printable(tensor) + "' has the value " +
                     (std::isnan(found) ? "NaN" : "infinity") +
                     "; expected finite weights: the file is damaged, or its training has diverged");
}

RLCORE_INLINE void read_piece(const tensor_folder& folder, const shard_piece& piece, std::span<float> values,
                              const rlcore::threads& pool) {
  constexpr std::size_t block = std::size_t{1} << 20;
  const auto read = [&](const shard_piece& part, std::span<float> to) {
    folder.read_f32(part, to);
    check_finite(folder.path(), piece.tensor, to);
  };
  if (folder.shards() != nullptr || values.size() <= block) return read(piece, values);
  pool.for_each((values.size() + block - 1) / block, [&](std::size_t i) {
    const std::size_t from = i * block, to = std::min(values.size(), from + block);
    read(parallel::part_of(piece, from, to), values.subspan(from, to - from));
  });
}

RLCORE_INLINE stored_weights::stored_weights(const std::filesystem::path& path,
                                             std::span<const nn::parameter> parameters)
    : folder_(path), parameters_(parameters) {
  check_tensors(folder_, parameters_, [](const std::string&) { return false; });
  const nn::parameter& first = parameters_.front();
  const bool tied = std::ranges::none_of(parameters_, [](const auto& p) { return p.name == output_name; });
  if (tied && first.name == embedding_name && folder_.contains(output_name))
    check_tied_output(folder_, piece_of(first));
}

RLCORE_INLINE void stored_weights::read(std::size_t first, std::span<float> values) const {
  std::unique_lock<std::mutex> alone(shards_, std::defer_lock);
  if (folder_.shards() != nullptr) alone.lock();
  auto p = std::ranges::upper_bound(parameters_, first, {}, &nn::parameter::offset) - 1;
  for (; !values.empty(); ++p) {
    const std::size_t from = first - p->offset, n = std::min(values.size(), p->size - from);
    folder_.read_f32(parallel::part_of(piece_of(*p), from, from + n), values.first(n));
    check_finite(folder_.path(), p->name, values.first(n));
    first += n, values = values.subspan(n);
  }
}

RLCORE_INLINE void save_weights(const std::filesystem::path& folder, std::span<const nn::parameter> parameters,
                                std::span<const float> weights, stored_type type, std::uint64_t max_shard_bytes) {
  check_extent(parameters, weights.size());
  for (const nn::parameter& p : parameters)
    if (p.split()) throw std::invalid_argument("rlcore: save_weights: '" + p.name + "' is only a part of its tensor");
  std::vector<tensor_source> tensors;
  for (const nn::parameter& p : parameters) tensors.push_back({p.name, p.shape, weights.subspan(p.offset, p.size)});
  write_tensor_folder(folder, tensors, type, max_shard_bytes);
}

}  // namespace checkpoint
RLCORE_END
#endif
