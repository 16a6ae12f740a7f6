// Writes the configuration of a Hugging Face folder, and compares two.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "rlcore/checkpoint/tensor_info.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/nn/config.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// The first key of config.json in which two models differ, with both values: "rms_norm_eps is 1e-05, expected 1e-06";
/// empty if they compute the same. Ignores dtypes on disk, the ids of EOS and padding, and training-only keys.
std::string difference_of(const nn::config& found, const nn::config& expected);

/// Writes config.json and generation_config.json that `transformers` (4 and 5) reads; `type` is the dtype of the stored
/// weights (F32, F16 or BF16). Keys of the two files of `original`, the folder that the model came from, stay as they
/// are there, unless `c` has another value. Throws file_error, or config_error for a vision tower in a family that has
/// none.
void write_config(const std::filesystem::path& folder, const nn::config& c, stored_type type = stored_type::f32,
                  const std::filesystem::path& original = {});

/// Makes `jinja` the chat template of a model folder, in each of the files that transformers and vLLM look for it:
/// chat_template.jinja, `chat_template` of tokenizer_config.json, and chat_template.json where it is. Throws
/// file_error, format_error.
void write_chat_template(const std::filesystem::path& folder, const std::string& jinja);

/// Sets the dtype of the weights in a config.json, by the names that it has for it (transformers 5 says dtype).
void set_stored_dtype(nlohmann::ordered_json& config, stored_type type);

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/rope_config.hpp"
#include "rlcore/checkpoint/vision_config_json.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/model_file.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/text_file.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// "float32", "float16" or "bfloat16".
inline const char* dtype_name(stored_type type) {
  return type == stored_type::bf16 ? "bfloat16" : type == stored_type::f16 ? "float16" : "float32";
}

RLCORE_INLINE void set_stored_dtype(nlohmann::ordered_json& config, stored_type type) {
  const char* name = dtype_name(type);
  if (config.contains("dtype")) config["dtype"] = name;
  if (config.contains("torch_dtype") || !config.contains("dtype")) config["torch_dtype"] = name;
  for (const char* part : {"text_config", "vision_config"})
    for (const char* key : {"dtype", "torch_dtype"})
      if (config.contains(part) && config[part].is_object() && config[part].contains(key)) config[part][key] = name;
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
  root["torch_dtype"] = dtype_name(type);
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

RLCORE_INLINE std::string difference_of(const nn::config& found, const nn::config& expected) {
  const nlohmann::ordered_json a = config_json(found).flatten(), b = config_json(expected).flatten();
  const auto counts = [](const std::string& key) {
    for (const char* ids : {"/eos_token_id", "/pad_token_id"})  // a number, or a list with numbered items
      if (key.find(ids) != key.npos) return false;
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

namespace detail {

/// generation_config.json as far as rlcore knows it.
inline nlohmann::ordered_json generation_json(const nn::config& c) {
  nlohmann::ordered_json generation = nlohmann::ordered_json::object();
  if (const nlohmann::ordered_json eos = eos_json(c); !eos.is_null()) generation["eos_token_id"] = eos;
  const std::int32_t pad = c.generation_pad_token_id < 0 ? c.pad_token_id : c.generation_pad_token_id;
  if (pad >= 0) generation["pad_token_id"] = pad;
  return generation;
}

/// `original` with the members in which `now` differs from `before`.
inline nlohmann::ordered_json changed_members(nlohmann::ordered_json original, const nlohmann::ordered_json& before,
                                              const nlohmann::ordered_json& now) {
  for (const auto& [key, value] : now.items()) {
    const auto was = before.find(key);
    if (was != before.end() && *was == value) continue;
    const auto kept = original.find(key);
    const bool nested = value.is_object() && was != before.end() && was->is_object() && kept != original.end();
    original[key] = nested && kept->is_object() ? changed_members(*kept, *was, value) : value;
  }
  for (const auto& [key, value] : before.items())
    if (!now.contains(key)) original.erase(key);
  return original;
}

}  // namespace detail

RLCORE_INLINE void write_config(const std::filesystem::path& folder, const nn::config& c, stored_type type,
                                const std::filesystem::path& original) {
  const auto write = [&](const char* name, const nlohmann::ordered_json& json) {
    write_file_atomically(folder / name, text::json_text(json, 2) + "\n");
  };
  const auto read = [](const std::filesystem::path& file) {
    return text::parse_json<format_error, nlohmann::ordered_json>(text::read_model_file(file), file.string());
  };
  const nlohmann::ordered_json now = config_json(c, type), generation = detail::generation_json(c);
  if (!original.empty() && text::has_model_file(original / "config.json")) {
    const nn::config was = read_config(original);
    if (was.model == c.model) {
      nlohmann::ordered_json kept =
          detail::changed_members(read(original / "config.json"), config_json(was, type), now);
      set_stored_dtype(kept, type);
      write("config.json", kept);
      const std::filesystem::path file = original / "generation_config.json";
      write("generation_config.json",
            text::has_model_file(file) ? detail::changed_members(read(file), detail::generation_json(was), generation)
                                       : generation);
      const nn::config written = read_config(folder);
      if (difference_of(written, c).empty() && written.eos_token_ids == c.eos_token_ids) return;
    }
  }
  write("config.json", now);
  write("generation_config.json", generation);
}

RLCORE_INLINE void write_chat_template(const std::filesystem::path& folder, const std::string& jinja) {
  for (const char* name : {"tokenizer_config.json", "chat_template.json"}) {
    const std::filesystem::path file = folder / name;
    if (!std::filesystem::exists(file)) continue;
    auto json = text::parse_json<format_error, nlohmann::ordered_json>(text::read_text_file(file), file.string());
    if (!json.is_object()) throw format_error(file.string() + ": not a JSON object");
    json["chat_template"] = jinja;
    text::write_text_file(file, text::json_text(json, 2) + "\n");
  }
  text::write_text_file(folder / "chat_template.jinja", jinja);
}

}  // namespace checkpoint
RLCORE_END
#endif
