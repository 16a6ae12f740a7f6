// The shape of a model by its name or from its config.json.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/checkpoint/vision_config_json.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/planning/model_shape.hpp"

RLCORE_BEGIN
namespace trainer::planning {

/// The shape of a model that the library can train.
model_shape shape_of(const nn::config& c, std::string name = {});

/// Reads a config.json of one of the families. Throws file_error, or format_error naming file, key,
/// value and expectation.
model_shape read_model_shape(const std::filesystem::path& path);

/// `text` names a known model, or is the path of a config.json or of its folder.
model_shape find_model(const std::string& text);

}  // namespace trainer::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace trainer::planning {

RLCORE_INLINE model_shape shape_of(const nn::config& c, std::string name) {
  return {std::move(name),
          c.vocab_size,
          c.hidden_size,
          c.intermediate_size,
          c.num_hidden_layers,
          c.num_attention_heads,
          c.num_key_value_heads,
          c.head_dim != 0 ? c.head_dim : c.hidden_size / c.num_attention_heads,
          c.tied(),
          c.attention_bias,
          c.qk_norms(),
          0,
          0,
          c.vision};
}

RLCORE_INLINE model_shape read_model_shape(const std::filesystem::path& path) {
  const std::filesystem::path where = std::filesystem::is_directory(path) ? path / "config.json" : path;
  const checkpoint::json_file whole(where);
  const nn::family family = checkpoint::read_family(whole);
  const checkpoint::json_file file = checkpoint::language_model(whole, family);
  const auto extent = [&](const char* key) { return file.integer(key, 1, INT32_MAX); };
  model_shape m;
  const std::filesystem::path folder = std::filesystem::absolute(where).parent_path();
  m.name = folder.filename().string();
  m.vocab_size = extent("vocab_size"), m.hidden_size = extent("hidden_size");
  m.layers = extent("num_hidden_layers"), m.heads = extent("num_attention_heads");
  m.kv_heads = extent("num_key_value_heads");
  if (m.heads % m.kv_heads != 0)
    file.fail("num_key_value_heads", "a divisor of num_attention_heads " + std::to_string(m.heads));
  if (file.has("head_dim")) {
    m.head_dim = extent("head_dim");
  } else if (family->default_head_dim != 0) {
    m.head_dim = family->default_head_dim;
  } else {
    if (m.hidden_size % m.heads != 0)
      file.fail("num_attention_heads", "a divisor of hidden_size " + std::to_string(m.hidden_size));
    m.head_dim = m.hidden_size / m.heads;
  }
  m.tied = checkpoint::read_tied(whole);
  if (family->vision) m.tower = checkpoint::read_tower(whole, family);
  m.attention_bias = family->qkv_bias;
  m.head_norms = family->qk_norms;
  if (family->experts) {
    m.intermediate_size = extent("moe_intermediate_size");
    m.experts = extent("num_experts");
    m.experts_per_token = file.integer("num_experts_per_tok", 1, m.experts);
    if (file.has("mlp_only_layers") && !file.root()["mlp_only_layers"].empty()) file.fail("mlp_only_layers", "[]");
    if (file.has("decoder_sparse_step") && file.integer("decoder_sparse_step") != 1)
      file.fail("decoder_sparse_step", "1");
  } else {
    m.intermediate_size = extent("intermediate_size");
  }
  return m;
}

RLCORE_INLINE model_shape find_model(const std::string& text) {
  std::error_code ignored;
  if (std::filesystem::exists(text, ignored)) return read_model_shape(text);
  if (const model_shape* known = find_known_model(text)) return *known;
  std::vector<std::string> names;
  for (const model_shape& m : known_models()) names.push_back(m.name);
  std::string list;
  for (const std::string& n : names) list += (list.empty() ? "" : ", ") + n;
  throw config_error("model=" + text + ": neither a file nor a known model" + did_you_mean(text, names) +
                     "; expected the path of a config.json, or one of " + list);
}

}  // namespace trainer::planning
RLCORE_END
#endif
