// Conversion between config.json, generation_config.json and nn::config.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/checkpoint/resolve_model.hpp"
#include "rlcore/checkpoint/rope_config.hpp"
#include "rlcore/checkpoint/tensor_info.hpp"
#include "rlcore/checkpoint/vision_config_json.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// Rejects features that this library does not support, instead of computing wrong results.
inline void refuse_unsupported(const json_file& file, nn::family model) {
  if (file.has("hidden_act") && file.root()["hidden_act"] != model->activation)
    file.fail("hidden_act", "\"" + std::string(model->activation) + "\"");
  for (const nn::fixed_flag& flag : model->flags) {
    const std::string key(flag.key);
    if (file.boolean(key, flag.value) != flag.value) file.fail(key, flag.value ? "true" : "false");
  }
  if (file.has("quantization_config")) file.fail("quantization_config", "none (quantised weights are not supported)");
  if (file.has("attention_dropout") && file.root()["attention_dropout"] != 0) file.fail("attention_dropout", "0");
  if (!file.has("layer_types")) return;
  const nlohmann::json& types = file.root()["layer_types"];
  const std::string expected = "\"full_attention\" for every layer";
  if (!types.is_array()) file.fail("layer_types", expected);
  for (const nlohmann::json& type : types)
    if (type != "full_attention") file.fail("layer_types", expected);
}

/// The output kind from `architectures`: Qwen2ForCausalLM or nothing means logits; Qwen2ForSequenceClassification,
/// Qwen2ForTokenClassification (its head has a bias) and OpenRLHF's RewardModel and CriticModel mean one score.
inline void read_output(const json_file& file, nn::config& c) {
  if (!file.has("architectures")) return;
  const nlohmann::json& list = file.root()["architectures"];
  if (!list.is_array() || list.size() != 1 || !list[0].is_string()) file.fail("architectures", "a list of one name");
  const auto name = list[0].get<std::string>();
  const bool token = name.ends_with("ForTokenClassification"), sequence = name.ends_with("ForSequenceClassification");
  if (!token && !sequence && name != "RewardModel" && name != "CriticModel") return;
  c.output = nn::model_output::score;
  c.score_bias = token;
  if (!token && !sequence) return;
  const std::string expected = "1 label (a score)";
  const auto labels = file.has("num_labels") ? file.integer("num_labels") : 1;
  if (labels != 1) file.fail("num_labels", expected);
  if (!file.has("num_labels") && !file.has("id2label")) file.fail("id2label", expected);
  if (file.has("id2label") && file.root()["id2label"].size() != 1) file.fail("id2label", expected);
}

/// The keys of Qwen3MoeConfig, with its defaults. transformers 5 writes num_experts as num_local_experts.
inline void read_experts(const json_file& file, nn::config& c) {
  const auto extent = [&](const char* key, std::int64_t otherwise) {
    return file.has(key) ? file.integer(key, 1, INT32_MAX) : otherwise;
  };
  c.num_experts = extent("num_experts", extent("num_local_experts", 128));
  if (extent("num_local_experts", c.num_experts) != c.num_experts)
    file.fail("num_local_experts", "num_experts, " + std::to_string(c.num_experts));
  c.num_experts_per_tok = extent("num_experts_per_tok", 8);
  if (c.num_experts_per_tok > c.num_experts)
    file.fail("num_experts_per_tok", "at most num_experts " + std::to_string(c.num_experts));
  c.moe_intermediate_size = extent("moe_intermediate_size", 768);
  c.decoder_sparse_step = extent("decoder_sparse_step", 1);
  c.norm_topk_prob = file.boolean("norm_topk_prob", false);
  c.output_router_logits = file.boolean("output_router_logits", false);
  if (file.has("router_aux_loss_coef")) {
    const nlohmann::json& value = file.root()["router_aux_loss_coef"];
    if (!value.is_number() || !(value.get<double>() >= 0)) file.fail("router_aux_loss_coef", "a number >= 0");
    c.router_aux_loss_coef = value.get<double>();
  }
  if (!file.has("mlp_only_layers")) return;
  const nlohmann::json& layers = file.root()["mlp_only_layers"];
  const std::string expected = "a list of numbers of layers";
  if (!layers.is_array()) file.fail("mlp_only_layers", expected);
  for (const nlohmann::json& layer : layers) {
    if (!layer.is_number_integer() || layer.get<std::int64_t>() < 0) file.fail("mlp_only_layers", expected);
    c.mlp_only_layers.push_back(layer.get<std::int64_t>());
  }
}

/// Declared in resolve_model.hpp.
RLCORE_INLINE nn::config read_config(const std::filesystem::path& folder) {
  const json_file whole(folder / "config.json");
  nn::config c;
  c.model = read_family(whole);
  const json_file file = language_model(whole, c.model);
  refuse_unsupported(file, c.model);
  read_output(file, c);

  const auto extent = [&](const char* key) { return file.integer(key, 1, INT32_MAX); };
  c.vocab_size = extent("vocab_size");
  c.hidden_size = extent("hidden_size");
  c.intermediate_size = extent("intermediate_size");
  c.num_hidden_layers = extent("num_hidden_layers");
  c.num_attention_heads = extent("num_attention_heads");
  c.num_key_value_heads = extent("num_key_value_heads");
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    file.fail("num_key_value_heads", "a divisor of num_attention_heads " + std::to_string(c.num_attention_heads));
  if (c.model->default_head_dim != 0 || file.has("head_dim")) {
    c.head_dim = extent("head_dim");
  } else {
    if (c.hidden_size % c.num_attention_heads != 0)
      file.fail("num_attention_heads", "a divisor of hidden_size " + std::to_string(c.hidden_size));
    c.head_dim = c.hidden_size / c.num_attention_heads;
  }
  if (c.head_dim % 2 != 0) file.fail("head_dim", "an even integer (rotary embeddings turn pairs)");
  if (c.has_experts()) read_experts(file, c);
  c.rms_norm_eps = file.positive("rms_norm_eps");
  c.tie_word_embeddings = read_tied(whole);
  c.attention_bias = c.model->qkv_bias;
  c.max_position_embeddings = extent("max_position_embeddings");
  read_rope(file, c);
  read_vision(whole, c);
  if (file.has("initializer_range")) c.initializer_range = file.positive("initializer_range");

  const auto id_in_vocabulary = [&](const json_file& where, const std::string& key, std::int32_t id) {
    if (id >= c.vocab_size) where.fail(key, "ids below vocab_size " + std::to_string(c.vocab_size));
    return id;
  };
  const auto read_ids = [&](const json_file& where, std::int32_t& pad_id) {
    if (const auto eos = where.token_ids("eos_token_id"); !eos.empty()) {
      for (const std::int32_t id : eos) id_in_vocabulary(where, "eos_token_id", id);
      c.eos_token_ids = eos;
    }
    if (!where.has("pad_token_id") || where.root()["pad_token_id"] == -1) return;
    if (const auto pad = where.token_ids("pad_token_id"); pad.size() == 1)
      pad_id = id_in_vocabulary(where, "pad_token_id", pad[0]);
    else
      where.fail("pad_token_id", "one token id");
  };
  read_ids(file, c.pad_token_id);
  if (std::filesystem::exists(folder / "generation_config.json"))
    read_ids(json_file(folder / "generation_config.json"), c.generation_pad_token_id);
  return c;
}

/// eos_token_id as config.json has it: null, a number or a list.
inline nlohmann::ordered_json eos_json(const nn::config& c) {
  const std::vector<std::int32_t>& ids = c.eos_token_ids;
  return ids.empty()       ? nlohmann::ordered_json()
         : ids.size() == 1 ? nlohmann::ordered_json(ids[0])
                           : nlohmann::ordered_json(ids);
}

/// The config.json of a model whose weights have this type. Throws config_error for a vision tower in a family that has
/// none.
inline nlohmann::ordered_json config_json(const nn::config& c, stored_type type = stored_type::f32) {
  check_tower(c);
  const bool sliding_window = std::any_of(c.model->flags.begin(), c.model->flags.end(), [](const nn::fixed_flag& flag) {
    return flag.key == "use_sliding_window" && !flag.implied;
  });
  const std::string dtype = type == stored_type::bf16 ? "bfloat16" : type == stored_type::f16 ? "float16" : "float32";
  const nlohmann::ordered_json eos = eos_json(c);
  const nlohmann::ordered_json pad =
      c.pad_token_id < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(c.pad_token_id);
  const bool score = c.output == nn::model_output::score;
  const std::string architecture = std::string(c.model->architecture) += !score         ? c.model->task
                                                                         : c.score_bias ? "ForTokenClassification"
                                                                                        : "ForSequenceClassification";
  nlohmann::ordered_json root{{"architectures", {architecture}},
                              {"model_type", nn::name_of(c.model)},
                              {"vocab_size", c.vocab_size},
                              {"hidden_size", c.hidden_size},
                              {"intermediate_size", c.intermediate_size},
                              {"num_hidden_layers", c.num_hidden_layers},
                              {"num_attention_heads", c.num_attention_heads},
                              {"num_key_value_heads", c.num_key_value_heads},
                              {"head_dim", c.head_dim},
                              {"hidden_act", c.model->activation},
                              {"attention_dropout", 0.0},
                              {"max_position_embeddings", c.max_position_embeddings},
                              {"initializer_range", c.initializer_range},
                              {"rms_norm_eps", c.rms_norm_eps},
                              {"rope_theta", c.rope_theta},
                              {"tie_word_embeddings", c.tie_word_embeddings}};
  if (c.rope_scaling.type != nn::rope_type::plain) root["rope_scaling"] = rope_scaling_json(c.rope_scaling);
  if (sliding_window) root["use_sliding_window"] = false, root["max_window_layers"] = c.num_hidden_layers;
  root["use_cache"] = true;
  root["torch_dtype"] = dtype;
  root["eos_token_id"] = eos;
  root["pad_token_id"] = pad;
  for (const nn::fixed_flag& flag : c.model->flags)
    if (!flag.implied && !root.contains(flag.key)) root[std::string(flag.key)] = flag.value;
  if (c.has_experts()) {
    root["num_experts"] = c.num_experts;
    root["num_experts_per_tok"] = c.num_experts_per_tok;
    root["moe_intermediate_size"] = c.moe_intermediate_size;
    root["norm_topk_prob"] = c.norm_topk_prob;
    root["decoder_sparse_step"] = c.decoder_sparse_step;
    root["mlp_only_layers"] = c.mlp_only_layers;
    root["output_router_logits"] = c.output_router_logits;
    root["router_aux_loss_coef"] = c.router_aux_loss_coef;
  }
  if (score) {
    root["num_labels"] = 1;
    root["id2label"] = {{"0", "LABEL_0"}};
    root["label2id"] = {{"LABEL_0", 0}};
    root["classifier_dropout"] = 0.0;
  }
  return c.vision ? nest_text(std::move(root), c) : root;
}

/// Declared in resolve_model.hpp.
RLCORE_INLINE std::string stored_dtype(const std::filesystem::path& folder) {
  const json_file whole(folder / "config.json");
  const json_file file = language_model(whole, read_family(whole));
  for (const char* key : {"dtype", "torch_dtype"})
    if (file.has(key)) return file.string(key);
  return {};
}

/// Declared in resolve_model.hpp.
RLCORE_INLINE std::string difference_of(const nn::config& found, const nn::config& expected) {
  const nlohmann::ordered_json a = config_json(found).flatten(), b = config_json(expected).flatten();
  const auto counts = [](const std::string& key) {
    for (const char* other : {"dtype", "initializer_range", "router_aux_loss_coef", "output_router_logits"})
      if (key.ends_with(other)) return false;
    return true;
  };
  const auto value = [](const nlohmann::ordered_json& in, const std::string& key) {
    return in.contains(key) ? text::json_text(in[key]) : std::string("not there");
  };
  for (const auto* side : {&b, &a})
    for (const auto& [key, v] : side->items())
      if (const std::string x = value(a, key), y = value(b, key); counts(key) && x != y)
        return key.substr(1) + " is " + x + ", expected " + y;
  return "";
}

/// Declared in resolve_model.hpp.
RLCORE_INLINE void write_config(const std::filesystem::path& folder, const nn::config& c, stored_type type) {
  const nlohmann::ordered_json eos = eos_json(c);
  write_file_atomically(folder / "config.json", text::json_text(config_json(c, type), 2) + "\n");
  nlohmann::ordered_json generation = nlohmann::ordered_json::object();
  if (!eos.is_null()) generation["eos_token_id"] = eos;
  const std::int32_t generation_pad = c.generation_pad_token_id < 0 ? c.pad_token_id : c.generation_pad_token_id;
  if (generation_pad >= 0) generation["pad_token_id"] = generation_pad;
  write_file_atomically(folder / "generation_config.json", text::json_text(generation, 2) + "\n");
}

}  // namespace checkpoint
RLCORE_END
