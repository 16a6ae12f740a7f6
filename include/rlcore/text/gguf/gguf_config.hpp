// The configuration of a GGUF file as config.json and generation_config.json.
#pragma once

#include <array>
#include <cstdint>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/elementary.hpp"
#include "rlcore/nn/attention/rope.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/text/gguf/gguf_file.hpp"

RLCORE_BEGIN
namespace text {

/// A family under llama.cpp's name.
struct gguf_architecture {
  std::string_view name;
  nn::family family;
  bool permuted;  ///< the rows of q_proj and k_proj are in the order of rotary pairs
};

/// The families that GGUF files have; of a family with a vision tower llama.cpp makes two files.
inline constexpr std::array gguf_architectures{
    gguf_architecture{"llama", nn::llama{}, true},
    gguf_architecture{"qwen2", nn::qwen2{}, false},
    gguf_architecture{"qwen3", nn::qwen3{}, false},
    gguf_architecture{"qwen3moe", nn::qwen3_moe{}, false},
};

/// The entry of general.architecture. Throws format_error for another one.
const gguf_architecture& architecture_of(const gguf_file& file);

/// By what llama.cpp divides the rotary frequencies of a head for the scaling "llama3" (tensor rope_freqs.weight). In
/// double, as its converter computes them; passes scale in float, as transformers does (nn::detail::scale_as_llama3).
std::vector<float> rope_factors(const nn::rope_settings& scaling, double theta, std::int64_t head_dim);

/// The size of a head. Throws format_error for rotary positions of a part of it.
std::uint64_t gguf_head_dim(const gguf_file& file);

/// A config.json. Throws format_error for what the families cannot compute.
std::string gguf_config(const gguf_file& file);

/// A generation_config.json: the tokens that end a text, and the padding.
std::string gguf_generation_config(const gguf_file& file);

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_JSON)
#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "rlcore/core/compiler.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace text {

RLCORE_INLINE const gguf_architecture& architecture_of(const gguf_file& file) {
  const auto name = file.text("general.architecture");
  for (const gguf_architecture& a : gguf_architectures)
    if (name == a.name) return a;
  std::string known;
  for (const gguf_architecture& a : gguf_architectures) known += (known.empty() ? "" : ", ") + std::string(a.name);
  file.fail("general.architecture", "one of " + known);
}

RLCORE_INLINE std::vector<float> rope_factors(const nn::rope_settings& scaling, double theta, std::int64_t head_dim) {
  std::vector<float> factors;
  const auto length = static_cast<double>(scaling.original_max_position_embeddings);
  for (std::int64_t i = 0; i < head_dim; i += 2) {
    const double frequency = elementary::pow(theta, -static_cast<double>(i) / static_cast<double>(head_dim));
    const double wave = 2 * std::numbers::pi / frequency;
    double factor = 1;
    if (wave > length / scaling.low_freq_factor) {
      factor = scaling.factor;
    } else if (wave >= length / scaling.high_freq_factor) {
      const double smooth =
          (length / wave - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
      factor = 1 / ((1 - smooth) / scaling.factor + smooth);
    }
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

namespace detail {

/// The numbers of config.json under the names of GGUF.
class gguf_numbers {
 public:
  explicit gguf_numbers(const gguf_file& file) : file_(file), prefix_(std::string(architecture_of(file).name) + ".") {}

  std::string key(const std::string& name) const { return prefix_ + name; }
  std::optional<std::uint64_t> find(const std::string& name) const { return file_.integer(key(name)); }
  std::uint64_t extent(const std::string& name) const {
    const auto value = find(name);
    if (!value || *value < 1 || *value > INT32_MAX) file_.fail(key(name), "an integer from 1 to 2147483647");
    return *value;
  }
  std::uint64_t extent(const std::string& name, std::uint64_t otherwise) const {
    return file_.has(key(name)) ? extent(name) : otherwise;
  }
  double number(const std::string& name) const {
    const auto value = file_.number(key(name));
    if (!value || !(*value > 0) || !std::isfinite(*value)) file_.fail(key(name), "a number > 0");
    return *value;
  }
  double number(const std::string& name, double otherwise) const {
    return file_.has(key(name)) ? number(name) : otherwise;
  }
  /// Throws unless the integer of `name`, if it is there, is `value`.
  void check(const std::string& name, std::uint64_t value) const {
    if (find(name).value_or(value) != value) file_.fail(key(name), std::to_string(value));
  }

 private:
  const gguf_file& file_;
  std::string prefix_;
};

/// The settings of "llama3" that give the factors of rope_freqs.weight; the file has no other trace of them. Published
/// models have the factors 1 and 4 and lengths that are powers of two.
inline nlohmann::ordered_json llama3_scaling(const gguf_file& file, const gguf_tensor& t, double theta,
                                             std::uint64_t head_dim) {
  const auto fail = [&](const std::string& what) -> nlohmann::ordered_json {
    throw format_error(file.path().string() + ": tensor 'rope_freqs.weight' " + what);
  };
  if (t.block->name != "F32" || t.size() != head_dim / 2)
    return fail("has " + std::to_string(t.size()) + " numbers of type " + std::string(t.block->name) +
                "; expected F32 for each of " + std::to_string(head_dim / 2) + " rotary pairs");
  std::vector<float> stored(static_cast<std::size_t>(t.size()));
  file.read(t.position, std::as_writable_bytes(std::span(stored)));
  if (std::all_of(stored.begin(), stored.end(), [](float x) { return x == 1.0F; })) return {};
  nn::rope_settings s{.type = nn::rope_type::llama3, .low_freq_factor = 1, .high_freq_factor = 4};
  s.factor = static_cast<double>(*std::max_element(stored.begin(), stored.end()));
  float least = 1e-4F;  // of the relative errors
  std::int64_t found = 0;
  for (std::int64_t length = 16; length <= (1 << 22) && s.factor > 1 && s.factor < 1e6; length *= 2) {
    s.original_max_position_embeddings = length;
    const std::vector<float> factors = rope_factors(s, theta, static_cast<std::int64_t>(head_dim));
    float worst = 0;
    for (std::size_t i = 0; i < factors.size(); ++i)
      worst = std::max(worst, stored[i] > 0 ? std::abs(stored[i] - factors[i]) / factors[i] : 1.0F);
    if (worst < least) least = worst, found = length;
  }
  if (found != 0)
    return {{"rope_type", "llama3"},
            {"factor", s.factor},
            {"low_freq_factor", s.low_freq_factor},
            {"high_freq_factor", s.high_freq_factor},
            {"original_max_position_embeddings", found}};
  return fail("has factors that no rope_scaling of type llama3 gives; expected low_freq_factor 1, high_freq_factor 4");
}

/// rope_scaling; null for none.
inline nlohmann::ordered_json scaling_json(const gguf_file& file, const gguf_numbers& of, double theta,
                                           std::uint64_t head_dim) {
  const std::string type_key = of.key("rope.scaling.type");
  const std::string type = file.text(type_key).value_or("none");
  if (const gguf_tensor* t = file.find("rope_freqs.weight")) {
    if (type != "none") file.fail(type_key, "none beside the tensor rope_freqs.weight");
    return llama3_scaling(file, *t, theta, head_dim);
  }
  if (type == "none") return {};
  if (type != "linear" && type != "yarn") file.fail(type_key, "none, linear or yarn");
  nlohmann::ordered_json scaling{{"rope_type", type}, {"factor", of.number("rope.scaling.factor")}};
  if (type == "linear") return scaling;
  for (const char* name : {"attn_factor", "yarn_log_multiplier", "yarn_ext_factor", "yarn_attn_factor"})
    if (const std::string key = of.key(std::string("rope.scaling.") + name); file.has(key)) file.fail(key, "none");
  if (const auto length = of.find("rope.scaling.original_context_length"))
    scaling["original_max_position_embeddings"] = *length;
  for (const auto& [name, key] :
       {std::pair("rope.scaling.yarn_beta_fast", "beta_fast"), std::pair("rope.scaling.yarn_beta_slow", "beta_slow")})
    if (file.has(of.key(name))) scaling[key] = of.number(name);
  return scaling;
}

/// The ids under these keys that are there, each once.
inline std::vector<std::uint64_t> token_ids(const gguf_file& file, std::initializer_list<const char*> names) {
  std::vector<std::uint64_t> ids;
  for (const char* name : names)
    if (const auto id = file.integer("tokenizer.ggml." + std::string(name) + "_token_id");
        id && *id < 0xFFFFFFFFU && std::find(ids.begin(), ids.end(), *id) == ids.end())
      ids.push_back(*id);
  return ids;
}

/// eos_token_id as config.json has it.
inline nlohmann::ordered_json eos_json(const gguf_file& file) {
  const auto ids = token_ids(file, {"eos", "eot", "eom"});
  return ids.empty()       ? nlohmann::ordered_json()
         : ids.size() == 1 ? nlohmann::ordered_json(ids[0])
                           : nlohmann::ordered_json(ids);
}

}  // namespace detail

RLCORE_INLINE std::uint64_t gguf_head_dim(const gguf_file& file) {
  const detail::gguf_numbers of(file);
  const std::uint64_t even = of.extent("embedding_length") / of.extent("attention.head_count");
  const std::uint64_t head_dim =
      of.extent("attention.key_length", of.extent("rope.dimension_count", std::max<std::uint64_t>(1, even)));
  of.check("attention.value_length", head_dim);
  of.check("rope.dimension_count", head_dim);
  return head_dim;
}

RLCORE_INLINE std::string gguf_config(const gguf_file& file) {
  const gguf_architecture& a = architecture_of(file);
  const detail::gguf_numbers of(file);
  const gguf_tensor* embedding = file.find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2)
    throw format_error(file.path().string() + ": no matrix 'token_embd.weight'; expected a language model");
  const std::uint64_t heads = of.extent("attention.head_count"), head_dim = gguf_head_dim(file);
  const std::uint64_t length = of.extent("context_length");
  if (const auto window = of.find("attention.sliding_window").value_or(0); window != 0 && window < length)
    file.fail(of.key("attention.sliding_window"), "none, or at least the context_length " + std::to_string(length));
  const double theta = of.number("rope.freq_base", 10000);
  nlohmann::ordered_json root{{"architectures", {std::string(a.family->architecture) += a.family->task}},
                              {"model_type", nn::name_of(a.family)},
                              {"vocab_size", embedding->shape[0]},
                              {"hidden_size", of.extent("embedding_length")},
                              {"intermediate_size", of.extent("feed_forward_length")},
                              {"num_hidden_layers", of.extent("block_count")},
                              {"num_attention_heads", heads},
                              {"num_key_value_heads", of.extent("attention.head_count_kv", heads)},
                              {"head_dim", head_dim},
                              {"hidden_act", a.family->activation},
                              {"max_position_embeddings", length},
                              {"rms_norm_eps", of.number("attention.layer_norm_rms_epsilon")},
                              {"rope_theta", theta},
                              {"tie_word_embeddings", file.find("output.weight") == nullptr}};
  if (auto scaling = detail::scaling_json(file, of, theta, head_dim); !scaling.is_null())
    root["rope_scaling"] = std::move(scaling);
  if (a.family->experts) {
    root["num_experts"] = of.extent("expert_count");
    root["num_experts_per_tok"] = of.extent("expert_used_count");
    root["moe_intermediate_size"] = of.extent("expert_feed_forward_length");
    root["norm_topk_prob"] = true;  // as llama.cpp computes it
    root["decoder_sparse_step"] = 1;
    root["mlp_only_layers"] = nlohmann::ordered_json::array();
  } else if (of.find("expert_count").value_or(0) > 0) {
    file.fail(of.key("expert_count"), "0 for this architecture");
  }
  for (const nn::fixed_flag& flag : a.family->flags)
    if (!flag.implied) root[std::string(flag.key)] = flag.value;
  root["torch_dtype"] = embedding->block->name == "BF16"  ? "bfloat16"
                        : embedding->block->name == "F16" ? "float16"
                                                          : "float32";
  if (const auto bos = detail::token_ids(file, {"bos"}); !bos.empty()) root["bos_token_id"] = bos[0];
  root["eos_token_id"] = detail::eos_json(file);
  if (const auto pad = detail::token_ids(file, {"padding"}); !pad.empty()) root["pad_token_id"] = pad[0];
  return json_text(root, 2) + "\n";
}

RLCORE_INLINE std::string gguf_generation_config(const gguf_file& file) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  if (const auto bos = detail::token_ids(file, {"bos"}); !bos.empty()) root["bos_token_id"] = bos[0];
  if (const auto eos = detail::eos_json(file); !eos.is_null()) root["eos_token_id"] = eos;
  if (const auto pad = detail::token_ids(file, {"padding"}); !pad.empty()) root["pad_token_id"] = pad[0];
  return json_text(root, 2) + "\n";
}

}  // namespace text
RLCORE_END
#endif
