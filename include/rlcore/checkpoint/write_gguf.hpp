// Writes a model as one GGUF file, for llama.cpp and what builds on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/checkpoint/gguf_writer.hpp"
#include "rlcore/checkpoint/weight_source.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/text/gguf/gguf_source.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// The metadata of a model: its configuration as read_config() has it, and the tokenizer and chat template of `folder`.
/// `type` is the type of its matrices. Throws format_error for what llama.cpp would compute otherwise: a score, a
/// vision tower, experts that are not in every layer.
gguf_metadata gguf_metadata_of(const nn::config& c, const std::filesystem::path& folder, const std::string& name,
                               const text::gguf_block& type);

/// Writes `weights` with the configuration, tokenizer and chat template of `folder` to `file`, which appears whole or
/// not at all. Matrices get `type` (F32, F16, BF16 or Q8_0; F16 for Q8_0 in rows that are no multiple of 32), vectors
/// and routers F32, as llama.cpp's converter has them. Calls done(bytes written, total bytes) after each piece. Returns
/// the number of tensors. Throws file_error, format_error.
std::size_t write_gguf(const std::filesystem::path& file, weight_source& weights, const std::filesystem::path& folder,
                       const text::gguf_block& type, const std::function<void(std::uint64_t, std::uint64_t)>& done);

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_WRITE_GGUF)
#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/gguf_blocks.hpp"
#include "rlcore/checkpoint/gguf_tensors.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/gguf/gguf_config.hpp"
#include "rlcore/text/gguf/tokenizer_to_gguf.hpp"

RLCORE_BEGIN
namespace checkpoint {
namespace detail {

/// llama.cpp's name and layout for the family. Throws format_error for what it has not, or computes otherwise.
inline const text::gguf_architecture& gguf_architecture_for(const nn::config& c, const std::filesystem::path& folder) {
  const auto fail = [&](const std::string& message) {
    throw format_error((folder / "config.json").string() + ": no GGUF file: " + message);
  };
  const auto a = std::find_if(text::gguf_architectures.begin(), text::gguf_architectures.end(),
                              [&](const auto& entry) { return entry.family == c.model; });
  if (a == text::gguf_architectures.end() || c.vision)
    fail("the family " + std::string(nn::name_of(c.model)) +
         " has a vision tower; expected a language model (llama.cpp's own converter makes two files)");
  if (c.output != nn::model_output::logits) fail("the model gives scores; expected a language model");
  if (c.has_experts() && (!c.norm_topk_prob || c.sparse_layers() != c.num_hidden_layers))
    fail("llama.cpp has experts in every layer and norm_topk_prob true; expected the same");
  const nn::rope_settings& rope = c.rope_scaling;
  if (rope.type == nn::rope_type::llama3 && a->name != "llama")
    fail("rope_scaling of type llama3; expected none, linear or yarn in this family");
  if (rope.attention_factor != 0 || rope.mscale != 0 || rope.mscale_all_dim != 0 || !rope.truncate)
    fail("rope_scaling has attention_factor, mscale or truncate; expected none of them");
  return *a;
}

/// The keys of the architecture.
inline void add_shape(gguf_metadata& m, const nn::config& c, const std::string& a) {
  const auto integer = [&](const char* key, std::int64_t value) {
    m.add_integer(a + "." + key, static_cast<std::uint32_t>(value));
  };
  integer("block_count", c.num_hidden_layers);
  integer("context_length", c.max_position_embeddings);
  integer("embedding_length", c.hidden_size);
  integer("feed_forward_length", c.intermediate_size);
  integer("attention.head_count", c.num_attention_heads);
  integer("attention.head_count_kv", c.num_key_value_heads);
  integer("attention.key_length", c.head_dim);
  integer("attention.value_length", c.head_dim);
  m.add_number(a + ".attention.layer_norm_rms_epsilon", static_cast<float>(c.rms_norm_eps));
  integer("rope.dimension_count", c.head_dim);
  m.add_number(a + ".rope.freq_base", static_cast<float>(c.rope_theta));
  integer("vocab_size", c.vocab_size);
  if (c.has_experts()) {
    integer("expert_count", c.num_experts);
    integer("expert_used_count", c.num_experts_per_tok);
    integer("expert_feed_forward_length", c.moe_intermediate_size);
  }
  const nn::rope_settings& rope = c.rope_scaling;
  if (rope.type != nn::rope_type::linear && rope.type != nn::rope_type::yarn) return;
  m.add_text(a + ".rope.scaling.type", rope.type == nn::rope_type::yarn ? "yarn" : "linear");
  m.add_number(a + ".rope.scaling.factor", static_cast<float>(rope.factor));
  if (rope.type == nn::rope_type::linear) return;
  integer("rope.scaling.original_context_length", rope.original_max_position_embeddings);
  if (rope.beta_fast != 0) m.add_number(a + ".rope.scaling.yarn_beta_fast", static_cast<float>(rope.beta_fast));
  if (rope.beta_slow != 0) m.add_number(a + ".rope.scaling.yarn_beta_slow", static_cast<float>(rope.beta_slow));
}

/// The keys of the tokenizer. The ids that end a text: the tokenizer's EOS token, then those of the configuration.
inline void add_tokenizer(gguf_metadata& m, const nn::config& c, const std::filesystem::path& folder) {
  text::gguf_tokenizer t = text::tokenizer_to_gguf(folder, static_cast<std::size_t>(c.vocab_size));
  std::vector<std::int32_t> ends;
  if (t.ids.contains("eos")) ends.push_back(t.ids["eos"]);
  for (const std::int32_t id : c.eos_token_ids)
    if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  constexpr std::array<const char*, 3> names = {"eos", "eot", "eom"};
  if (ends.size() > names.size())
    throw format_error(folder.string() + ": " + std::to_string(ends.size()) + " tokens end a text; a GGUF file has " +
                       std::to_string(names.size()) + " at most (eos_token_id of generation_config.json)");
  for (std::size_t i = 0; i < ends.size(); ++i) t.ids[names[i]] = ends[i];
  if (!t.ids.contains("padding") && c.pad_token_id >= 0) t.ids["padding"] = c.pad_token_id;
  m.add_text("tokenizer.ggml.model", t.model);
  m.add_text("tokenizer.ggml.pre", t.pre);
  m.add_list("tokenizer.ggml.tokens", t.tokens);
  if (!t.scores.empty()) m.add_list("tokenizer.ggml.scores", t.scores);
  m.add_list("tokenizer.ggml.token_type", t.types);
  if (t.scores.empty()) m.add_list("tokenizer.ggml.merges", t.merges);
  for (const auto& [key, id] : t.ids)
    m.add_integer("tokenizer.ggml." + key + "_token_id", static_cast<std::uint32_t>(id));
  m.add_boolean("tokenizer.ggml.add_bos_token", t.add_bos);
  m.add_boolean("tokenizer.ggml.add_eos_token", t.add_eos);
  m.add_boolean("tokenizer.ggml.add_space_prefix", t.add_space);
  if (t.chat_template) m.add_text("tokenizer.chat_template", *t.chat_template);
}

/// A tensor of the file and the weights that it has: one, or those of all experts.
struct gguf_part {
  std::string name;
  std::vector<const weight*> weights;
  const text::gguf_block* block = nullptr;
  bool permuted = false;
};

/// The tensors, in the order of their names. Throws format_error for a weight that has no name there.
inline std::vector<gguf_part> gguf_parts(const weight_source& from, const text::gguf_block& type, bool permuted,
                                         const std::filesystem::path& folder) {
  std::map<std::string, std::map<std::uint64_t, const weight*>> by_name;
  for (const weight& w : from.weights()) {
    const auto name = gguf_name_of(w.name);
    if (!name)
      throw format_error(folder.string() + ": tensor '" + data::printable(w.name) + "' has no name in GGUF files");
    by_name[name->name][name->expert.value_or(0)] = &w;
  }
  std::vector<gguf_part> parts;
  for (const auto& [name, weights] : by_name) {
    gguf_part p;
    p.name = name;
    for (const auto& [expert, w] : weights) {
      if (expert != p.weights.size() || w->shape != weights.begin()->second->shape)
        throw format_error(folder.string() + ": tensor '" + data::printable(w->name) +
                           "': expected one of each expert, all of one shape");
      p.weights.push_back(w);
    }
    const weight& first = *p.weights.front();
    p.permuted = permuted && (name.find(".attn_q.") != name.npos || name.find(".attn_k.") != name.npos);
    const bool matrix = first.shape.size() == 2 && name.find("ffn_gate_inp") == name.npos;
    const bool whole_blocks = matrix && static_cast<std::uint64_t>(first.shape[1]) % type.elements == 0;
    p.block = !matrix ? &gguf_block_of("F32") : whole_blocks ? &type : &gguf_block_of("F16");
    parts.push_back(std::move(p));
  }
  return parts;
}

/// Calls piece(floats) for a weight from front to back; a permuted one in llama.cpp's order of rows.
template <class Piece>
void for_each_piece(weight_source& from, const weight& w, std::uint64_t head_dim, bool permuted, Piece&& piece) {
  constexpr std::uint64_t block = std::uint64_t{1} << 20;
  std::vector<float> values, turned;
  const std::uint64_t columns = w.shape.size() == 2 ? static_cast<std::uint64_t>(w.shape[1]) : 1;
  const std::uint64_t step = permuted ? head_dim * columns : block;
  for (std::uint64_t first = 0; first < w.size(); first += step) {
    values.resize(static_cast<std::size_t>(std::min(step, w.size() - first)));
    from.read_f32(w, first, values);
    if (permuted) {
      turned.resize(values.size());
      for (std::uint64_t row = 0; row < head_dim; ++row)
        std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(row * columns), columns,
                    turned.begin() + static_cast<std::ptrdiff_t>(permuted_row(row, head_dim) * columns));
      values.swap(turned);
    }
    piece(std::span<const float>(values));
  }
}

}  // namespace detail

RLCORE_INLINE gguf_metadata gguf_metadata_of(const nn::config& c, const std::filesystem::path& folder,
                                             const std::string& name, const text::gguf_block& type) {
  const std::string a(detail::gguf_architecture_for(c, folder).name);
  gguf_metadata m;
  m.add_text("general.architecture", a);
  m.add_text("general.type", "model");
  m.add_text("general.name", name);
  // llama.cpp's numbers of "mostly this type".
  constexpr std::pair<std::string_view, std::uint32_t> file_types[] = {
      {"F32", 0}, {"F16", 1}, {"Q8_0", 7}, {"BF16", 32}};
  for (const auto& [known, number] : file_types)
    if (known == type.name) m.add_integer("general.file_type", number);
  m.add_integer("general.quantization_version", 2);
  detail::add_shape(m, c, a);
  detail::add_tokenizer(m, c, folder);
  return m;
}

RLCORE_INLINE std::size_t write_gguf(const std::filesystem::path& file, weight_source& weights,
                                     const std::filesystem::path& folder, const text::gguf_block& type,
                                     const std::function<void(std::uint64_t, std::uint64_t)>& done) {
  const nn::config c = read_config(folder);
  const bool permuted = detail::gguf_architecture_for(c, folder).permuted;
  const gguf_metadata metadata = gguf_metadata_of(c, folder, file.stem().string(), type);
  if (!c.tied() && weights.find(output_name) == nullptr)
    throw format_error(folder.string() + ": tensor '" + std::string(output_name) +
                       "' is missing, and tie_word_embeddings is false");
  const std::vector<detail::gguf_part> parts = detail::gguf_parts(weights, type, permuted, folder);
  std::vector<gguf_output> outputs;
  std::vector<float> factors;
  if (c.rope_scaling.type == nn::rope_type::llama3) {
    factors = text::rope_factors(c.rope_scaling, c.rope_theta, c.head_dim);
    outputs.push_back({"rope_freqs.weight", {static_cast<std::int64_t>(factors.size())}, &gguf_block_of("F32")});
  }
  std::uint64_t total = 0, written = 0;
  for (const detail::gguf_part& p : parts) {
    gguf_output t{p.name, p.weights.front()->shape, p.block};
    if (p.name.find("_exps.") != p.name.npos)
      t.shape.insert(t.shape.begin(), static_cast<std::int64_t>(p.weights.size()));
    total += t.bytes();
    outputs.push_back(std::move(t));
  }
  std::vector<std::byte> bytes;
  replace_file(file, [&](const std::filesystem::path& temporary) {
    gguf_writer writer(temporary, metadata, outputs);
    if (!factors.empty()) writer.append(std::as_bytes(std::span<const float>(factors)));
    for (const detail::gguf_part& p : parts)
      for (const weight* w : p.weights)
        detail::for_each_piece(weights, *w, static_cast<std::uint64_t>(c.head_dim), p.permuted,
                               [&](std::span<const float> values) {
                                 bytes.resize(values.size() / p.block->elements * p.block->bytes);
                                 write_gguf_blocks(*p.block, values, bytes);
                                 writer.append(bytes);
                                 done(written += bytes.size(), total);
                               });
    writer.finish();
  });
  return outputs.size();
}

}  // namespace checkpoint
RLCORE_END
#endif
