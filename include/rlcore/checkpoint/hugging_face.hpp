// Hugging Face model folders: finds one, and reads config.json and generation_config.json (nn::config). JSON is slow to
// compile: with RLCORE_COMPILED it is that of src/checkpoint.cpp.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/checkpoint/tensor_info.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/text/gguf/gguf_file.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// "~" and "~/..." with $HOME in place of the tilde; anything else as it is.
inline std::filesystem::path expand_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  if (home == nullptr || path.empty() || path[0] != '~' || (path.size() > 1 && path[1] != '/')) return path;
  return home + path.substr(1);
}

/// The hub cache: $HF_HUB_CACHE, else $HF_HOME/hub, else ~/.cache/huggingface/hub.
inline std::filesystem::path hub_cache() {
  if (const char* cache = std::getenv("HF_HUB_CACHE"); cache != nullptr && *cache != '\0') return expand_home(cache);
  if (const char* home = std::getenv("HF_HOME"); home != nullptr && *home != '\0') return expand_home(home) / "hub";
  return expand_home("~/.cache/huggingface/hub");
}

/// The newest model in the folder of a run or in one of its checkpoints; empty if there is none. Steps after the one
/// that the tracker names are those of an earlier run.
std::filesystem::path model_of_run(const std::filesystem::path& folder);

/// The one GGUF file in a folder, besides those of projectors (mmproj...); empty if there is none. Throws config_error
/// for several.
std::filesystem::path gguf_in(const std::filesystem::path& folder);

/// The folder that holds config.json of `model`: a local folder, or huggingface/ in it (a checkpoint), the same of
/// $RLCORE_MODEL_DIR/<model>, or what refs/main of models--org--name points to in the hub cache. Or a GGUF file: named
/// itself, or the only one of a folder without config.json (text::has_model_file). Nothing is downloaded.
/// Throws config_error with all places tried.
std::filesystem::path resolve_model(const std::string& model);

/// Reads `folder`/config.json of a model of one of the families (nn/config.hpp), and the ids of generation_config.json,
/// whose eos_token_id wins. Throws file_error, or format_error naming file, key, value and expectation.
nn::config read_config(const std::filesystem::path& folder);

/// The tokens that end a text: `ids` (of read_config()) and the tokenizer's own, as vLLM unites them; the fine-tune of
/// a base model may name its end of turn in the tokenizer alone. Throws format_error, which names `folder`, if there is
/// none.
std::vector<std::int32_t> end_tokens(const std::filesystem::path& folder, std::span<const std::int32_t> ids,
                                     std::optional<std::int32_t> tokenizer_eos);

/// The eos_token_id of `folder`/generation_config.json; empty without one. Throws file_error, format_error.
std::vector<std::int32_t> generation_end_tokens(const std::filesystem::path& folder);

/// The weight dtype in `folder`/config.json: "bfloat16", "float16", "float32"; empty if missing. transformers 5 calls
/// it dtype, earlier ones torch_dtype. Throws file_error, format_error.
std::string stored_dtype(const std::filesystem::path& folder);
class json_file;
/// The same of a language model's configuration.
std::string stored_dtype(const json_file& language_model);

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/checkpoint/rope_config.hpp"
#include "rlcore/checkpoint/vision_config_json.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/text/model_file.hpp"
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
  if (text::has_model_file(folder / "generation_config.json"))
    read_ids(json_file(folder / "generation_config.json"), c.generation_pad_token_id);
  return c;
}

RLCORE_INLINE std::string stored_dtype(const std::filesystem::path& folder) {
  const json_file whole(folder / "config.json");
  return stored_dtype(language_model(whole, read_family(whole)));
}

RLCORE_INLINE std::string stored_dtype(const json_file& file) {
  for (const char* key : {"dtype", "torch_dtype"})
    if (file.has(key)) return file.string(key);
  return {};
}

RLCORE_INLINE std::vector<std::int32_t> end_tokens(const std::filesystem::path& folder,
                                                   std::span<const std::int32_t> ids,
                                                   std::optional<std::int32_t> tokenizer_eos) {
  std::vector<std::int32_t> all(ids.begin(), ids.end());
  if (tokenizer_eos && std::find(all.begin(), all.end(), *tokenizer_eos) == all.end()) all.push_back(*tokenizer_eos);
  if (all.empty()) throw format_error(folder.string() + ": neither config.json nor the tokenizer names an EOS token");
  return all;
}

RLCORE_INLINE std::vector<std::int32_t> generation_end_tokens(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "generation_config.json";
  return text::has_model_file(file) ? json_file(file).token_ids("eos_token_id") : std::vector<std::int32_t>();
}

RLCORE_INLINE std::filesystem::path model_of_run(const std::filesystem::path& folder) {
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
  try {
    last = read_tracker(folder).value_or(last);
  } catch (const error&) {  // a damaged tracker names no step
  }
  std::filesystem::path newest;
  std::int64_t best = -1;
  const auto look = [&](const std::filesystem::path& checkpoint, std::int64_t step) {
    std::error_code ignored;
    for (const char* part : {"actor/huggingface", "huggingface"})
      if (step > best && std::filesystem::is_regular_file(checkpoint / part / "config.json", ignored))
        newest = checkpoint / part, best = step;
  };
  look(folder, 0);
  std::error_code failure;
  for (std::filesystem::directory_iterator at(folder, failure), end; !failure && at != end; at.increment(failure))
    if (const auto step = step_of(at->path()); step && *step <= last) look(at->path(), *step);
  return newest;
}

RLCORE_INLINE std::filesystem::path gguf_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code failure;
  for (std::filesystem::directory_iterator at(folder, failure), end; !failure && at != end; at.increment(failure))
    if (text::is_gguf(at->path()) && !at->path().filename().string().starts_with("mmproj")) found.push_back(at->path());
  if (found.empty()) return {};
  std::sort(found.begin(), found.end());
  if (found.size() > 1)
    throw config_error("model '" + data::printable(folder.string()) + "': the folder has " +
                       std::to_string(found.size()) + " GGUF files; expected the path of one, such as " +
                       data::printable(found[0].string(), 400));
  return found[0];
}

RLCORE_INLINE std::filesystem::path resolve_model(const std::string& model) {
  if (model.empty()) throw config_error("the model path is empty; expected a folder or a model id such as org/name");
  std::vector<std::filesystem::path> candidates{expand_home(model)};
  const bool id = model[0] != '/' && model[0] != '.' && model[0] != '~' && model.find("..") == std::string::npos;
  if (const char* root = std::getenv("RLCORE_MODEL_DIR");
      root != nullptr && *root != '\0' && model[0] != '/' && model[0] != '~')
    candidates.push_back(expand_home(root) / model);
  std::error_code ignored;
  const auto is_model = [&](const std::filesystem::path& folder) {
    return std::filesystem::is_regular_file(folder / "config.json", ignored);
  };
  for (const auto& folder : candidates)
    if (is_model(folder) || text::is_gguf(folder)) return folder;
  for (const auto& folder : candidates)
    if (is_model(folder / "huggingface")) return folder / "huggingface";
  for (const auto& folder : candidates)
    if (const std::filesystem::path file = gguf_in(folder); !file.empty()) return file;
  if (std::filesystem::is_directory(candidates[0], ignored)) {
    const std::filesystem::path inside = model_of_run(candidates[0]);
    throw config_error("model '" + model + "': the folder exists but has no config.json" +
                       (inside.empty() ? "" : "; the model of the run in it is " + inside.string()));
  }

  if (id) {
    std::string name = "models--";
    for (const char c : model) name += c == '/' ? std::string("--") : std::string(1, c);
    const std::filesystem::path repository = hub_cache() / name, main = repository / "refs" / "main";
    candidates.push_back(main);
    if (std::filesystem::is_regular_file(main, ignored)) {
      std::string revision = data::read_file(main);
      while (!revision.empty() && (revision.back() == '\n' || revision.back() == ' ')) revision.pop_back();
      candidates.back() = repository / "snapshots" / revision;
      if (is_model(candidates.back())) return candidates.back();
      if (const std::filesystem::path file = gguf_in(candidates.back()); !file.empty()) return file;
    }
  }
  std::string tried;
  for (const auto& folder : candidates) tried += (tried.empty() ? "" : ", ") + data::printable(folder.string(), 400);
  const char* root = std::getenv("RLCORE_MODEL_DIR");
  const bool named = root != nullptr && *root != '\0';
  throw config_error(
      "model '" + data::printable(model) + "' not found; tried " + tried +
      (named || !id ? "" : "; RLCORE_MODEL_DIR in the environment names a folder of models to look in as well"));
}

}  // namespace checkpoint
RLCORE_END
#endif
