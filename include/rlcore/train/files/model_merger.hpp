// model_merger: converts a checkpoint to a Hugging Face folder or a GGUF file, or compares it with one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/gguf_blocks.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/merge_adapter.hpp"
#include "rlcore/checkpoint/sharded_torch.hpp"
#include "rlcore/checkpoint/stream_weights.hpp"
#include "rlcore/checkpoint/vision_config_json.hpp"
#include "rlcore/checkpoint/weight_source.hpp"
#include "rlcore/checkpoint/write_config.hpp"
#include "rlcore/checkpoint/write_gguf.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/nn/vision/vision_config.hpp"
#include "rlcore/telemetry/progress.hpp"
#include "rlcore/text/gguf/gguf_file.hpp"
#include "rlcore/text/model_file.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace train {

/// Settings of model_merger.
struct merger_settings {
  std::filesystem::path local_dir, target_dir, test_hf_dir;  ///< test_hf_dir is empty for merge
  checkpoint::stream_settings output;
  std::string_view gguf;  ///< target_dir is a GGUF file with matrices of this type; empty: a folder
  bool merge_lora = false;
  std::optional<double> lora_alpha;
  std::optional<std::string> base_model;
};

/// The types of matrices in GGUF files by the words for them: bf16, fp16, fp32, q8_0. Throws config_error, which begins
/// with `key`, for another word.
std::string_view gguf_type_named(const std::string& key, const std::string& word);

/// `operation` is merge or test. Throws config_error for missing or rejected settings.
merger_settings read_merger_settings(const std::string& operation, const options& o);

namespace detail {

/// Where config.json and the tokenizer of a checkpoint are.
std::filesystem::path model_files_of(const std::filesystem::path& local_dir);

inline bool is_weight_file(const std::string& name) {
  return name.ends_with(".safetensors") || name.ends_with(".index.json") || name.ends_with(".bin") ||
         name.ends_with(".pt") || name.ends_with(".pth");
}

/// Copies all files of a model folder except weights and config.json.
void copy_other_files(const std::filesystem::path& from, const std::filesystem::path& to);

/// The same, and config.json with the new type.
void copy_model_files(const std::filesystem::path& from, const std::filesystem::path& to, checkpoint::stored_type type);

/// lora_adapter/ as peft reads it, with the names and the alpha that verl's own merger loses. For a vision-language
/// model the names are those in memory, independent of the shards, and target_modules are full names.
void write_adapter(checkpoint::weight_source& from, const checkpoint::merged_weights& merged,
                   const checkpoint::adapter_scale& scale, const std::filesystem::path& folder);

/// Creates the target folder; throws config_error if it is one of the input folders.
void make_target(const std::filesystem::path& target, std::initializer_list<std::filesystem::path> sources);

/// The weights with the other parts of the model in `files` as a GGUF file. Prints and returns the number of tensors.
std::size_t write_gguf_file(const merger_settings& s, checkpoint::weight_source& weights,
                            const std::filesystem::path& files);

/// local_dir is an adapter: it and its base become one model.
void merge_adapter_folder(const merger_settings& s);

/// A checkpoint of several ranks that trained an adapter and saved no model.
inline bool holds_adapter_alone(const std::filesystem::path& local_dir) {
  const auto there = [&](const char* name) { return std::filesystem::exists(local_dir / name); };
  return checkpoint::is_adapter(local_dir / "lora_adapter") && there("shards/manifest.json") &&
         !there("huggingface/model.safetensors") && !there("huggingface/model.safetensors.index.json");
}

/// The weights of a checkpoint: shards of torch.save, or the safetensors in `files`. Prints their kind. Throws
/// config_error for a Megatron checkpoint.
std::unique_ptr<checkpoint::weight_source> open_weights(const std::filesystem::path& local_dir,
                                                        const std::filesystem::path& files);

/// Rank and alpha of the adapter that `weights` hold apart; unset if they hold none. Throws config_error if the alpha
/// is unknown, or the settings have a different rank.
std::optional<checkpoint::adapter_scale> scale_of(const checkpoint::merged_weights& weights, const merger_settings& s);

}  // namespace detail

/// Merges or compares according to `s`, with memory for a few blocks, and prints the result.
void merge_model(const merger_settings& s);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_PARTS)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::string_view gguf_type_named(const std::string& key, const std::string& word) {
  if (word == "fp32" || word == "float32") return "F32";
  if (word == "fp16" || word == "float16") return "F16";
  if (word == "bf16" || word == "bfloat16") return "BF16";
  if (word == "q8_0") return "Q8_0";
  throw config_error(key + " " + data::printable(word) + "; expected bf16, fp16, fp32 or q8_0");
}

RLCORE_INLINE merger_settings read_merger_settings(const std::string& operation, const options& o) {
  if (operation != "merge" && operation != "test")
    throw config_error("operation '" + data::printable(operation) + "'; expected merge or test" +
                       did_you_mean(operation, std::vector<std::string>{"merge", "test"}));
  const auto need = [&](const char* name, const char* argument) {
    const auto value = o.find<std::string>(name);
    if (!value || value->empty()) throw config_error(operation + " needs --" + name + " " + argument);
    return *value;
  };
  if (need("backend", "fsdp") == "megatron")
    throw config_error(
        "--backend megatron: dist_ckpt folders are not read; save with save_contents containing hf_model, "
        "or convert with verl's own merger");
  if (o.find<std::string>("hf_upload_path"))
    throw config_error("--hf_upload_path: nothing is uploaded; merge to --target_dir and upload that folder");
  merger_settings s;
  s.local_dir = need("local_dir", "DIR, such as .../global_step_10/actor");
  if (!std::filesystem::is_directory(s.local_dir) && !text::is_gguf(s.local_dir))
    throw config_error("--local_dir: no folder or GGUF file " + data::printable(s.local_dir.string()));
  if (operation == "test") s.test_hf_dir = need("test_hf_dir", "DIR");
  s.target_dir = o.get<std::string>("target_dir");
  const std::string dtype = o.get<std::string>("dtype");
  if (s.target_dir.extension() == ".gguf" && s.test_hf_dir.empty())
    s.gguf = gguf_type_named("--dtype", dtype);
  else if (dtype == "q8_0")
    throw config_error(
        "--dtype q8_0: a folder has bf16, fp16 or fp32; expected one of them, or --target_dir FILE.gguf");
  s.output.dtype = dtype == "fp32" || dtype == "float32"   ? checkpoint::stored_type::f32
                   : dtype == "fp16" || dtype == "float16" ? checkpoint::stored_type::f16
                                                           : checkpoint::stored_type::bf16;
  const double shard = o.get<double>("max_shard_size") * 1e9;
  if (!(shard >= 1) || shard > 1e18) throw config_error("--max-shard-size: expected GB, at least 1e-9");
  s.output.max_shard_bytes = static_cast<std::uint64_t>(shard);
  s.merge_lora = o.get<bool>("merge_lora");
  s.lora_alpha = o.find<double>("lora_alpha");
  s.base_model = o.find<std::string>("base_model");
  return s;
}

}  // namespace train

namespace train::detail {

RLCORE_INLINE std::filesystem::path model_files_of(const std::filesystem::path& local_dir) {
  if (text::is_gguf(local_dir)) return local_dir;
  const std::filesystem::path folder = local_dir / "huggingface";
  if (std::filesystem::exists(folder / "config.json")) return folder;
  if (std::filesystem::exists(local_dir / "config.json")) return local_dir;
  if (const auto actor = local_dir / "actor"; std::filesystem::exists(actor / "huggingface" / "config.json"))
    throw file_error(local_dir.string() + " is a step of a run; its policy is --local_dir " + actor.string());
  throw file_error((folder / "config.json").string() +
                   ": missing; expected a checkpoint's folder, such as "
                   "global_step_10/actor with huggingface/ in it");
}

RLCORE_INLINE void copy_other_files(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (text::is_gguf(from)) {
    text::copy_files(from, to);
    const char* name = "generation_config.json";
    return checkpoint::write_file_atomically(to / name, text::read_model_file(from / name));
  }
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && !is_weight_file(name) && name != "config.json")
      checkpoint::write_file_atomically(to / name, data::read_file(entry.path()));
  }
}

RLCORE_INLINE void copy_model_files(const std::filesystem::path& from, const std::filesystem::path& to,
                                    checkpoint::stored_type type) {
  copy_other_files(from, to);
  const std::filesystem::path old_config = from / "config.json";
  auto config = text::parse_json<format_error, nlohmann::ordered_json>(checkpoint::read_model_file(old_config),
                                                                       old_config.string());
  if (!config.is_object()) throw format_error(old_config.string() + ": not a JSON object");
  checkpoint::set_stored_dtype(config, type);
  checkpoint::write_file_atomically(to / "config.json", text::json_text(config, 2) + "\n");
}

RLCORE_INLINE void write_adapter(checkpoint::weight_source& from, const checkpoint::merged_weights& merged,
                                 const checkpoint::adapter_scale& scale, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::vector<checkpoint::tensor_source> tensors;
  std::vector<std::vector<float>> values;
  std::set<std::string> modules;
  const auto& weights = merged.weights();
  const bool images =
      std::any_of(weights.begin(), weights.end(), [](const auto& w) { return w.name.starts_with("visual."); });
  const std::string prefix(checkpoint::adapter_prefix);
  for (const auto& [name, pair] : merged.adapters())
    for (const auto* w : {pair.a, pair.b}) {
      std::string key = w->name;
      if (const std::size_t at = key.rfind(".default.weight"); at != std::string::npos) key.erase(at, 8);
      if (!key.starts_with(prefix)) key = prefix + key;
      const std::string module = name.substr(0, name.rfind('.'));
      if (images) key = prefix + nn::name_in_memory(key.substr(prefix.size()));
      modules.insert(images ? nn::name_in_memory(module) : module.substr(module.rfind('.') + 1));
      values.emplace_back(static_cast<std::size_t>(w->size()));
      from.read_f32(*w, 0, values.back());
      tensors.push_back({key, w->shape, {}});
    }
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].values = values[i];
  checkpoint::write_safetensors(folder / "adapter_model.safetensors", tensors);
  const nlohmann::ordered_json config{{"peft_type", "LORA"},
                                      {"task_type", "CAUSAL_LM"},
                                      {"r", scale.rank},
                                      {"lora_alpha", scale.alpha},
                                      {"lora_dropout", 0.0},
                                      {"target_modules", modules},
                                      {"bias", "none"},
                                      {"fan_in_fan_out", false},
                                      {"inference_mode", true},
                                      {"use_rslora", scale.rank_stabilised},
                                      {"use_dora", false},
                                      {"base_model_name_or_path", nullptr},
                                      {"modules_to_save", nullptr},
                                      {"init_lora_weights", true}};
  checkpoint::write_file_atomically(folder / "adapter_config.json", text::json_text(config, 2) + "\n");
}

RLCORE_INLINE void make_target(const std::filesystem::path& target,
                               std::initializer_list<std::filesystem::path> sources) {
  std::error_code failure, ignored;
  const bool file = target.extension() == ".gguf";
  const std::filesystem::path folder = file ? std::filesystem::absolute(target).parent_path() : target;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw file_error(folder.string() + ": cannot create the folder: " + failure.message());
  if (file && std::filesystem::is_directory(target))
    throw config_error("--target_dir " + target.string() + " is a folder; expected a file, or another name for one");
  for (const std::filesystem::path& source : sources)
    if (std::filesystem::equivalent(target, source, ignored))
      throw config_error("--target_dir " + target.string() + " is the checkpoint itself; give another path");
}

RLCORE_INLINE std::size_t write_gguf_file(const merger_settings& s, checkpoint::weight_source& weights,
                                          const std::filesystem::path& files) {
  progress bar;
  bar.start(0, 0);
  const std::size_t count = checkpoint::write_gguf(s.target_dir, weights, files, checkpoint::gguf_block_of(s.gguf),
                                                   [&](std::uint64_t done, std::uint64_t total) {
                                                     bar.phase("MB written", static_cast<std::size_t>(done / 1000000),
                                                               static_cast<std::size_t>(total / 1000000 + 1));
                                                   });
  bar.finish();
  std::printf("%s: %zu tensors, matrices of %s\n", s.target_dir.c_str(), count, std::string(s.gguf).c_str());
  return count;
}

RLCORE_INLINE void merge_adapter_folder(const merger_settings& s) {
  const checkpoint::adapter_config config = checkpoint::read_adapter_config(s.local_dir);
  if (!s.merge_lora || !s.test_hf_dir.empty())
    throw config_error(s.local_dir.string() + " is an adapter; expected merge --merge-lora, which adds it to its base");
  if (s.lora_alpha) throw config_error("--lora-alpha: " + s.local_dir.string() + " says it itself");
  const std::string base = s.base_model.value_or(config.base_model);
  if (base.empty())
    throw config_error((s.local_dir / "adapter_config.json").string() + " names no base model; give --base_model");
  const std::filesystem::path folder = checkpoint::resolve_model(base);
  make_target(s.target_dir, {folder, s.local_dir});
  if (!s.gguf.empty()) {
    const checkpoint::atomic_folder whole(s.target_dir.string() + ".merged");  // removed at the end
    checkpoint::merge_adapter(folder, s.local_dir, whole.path(), {checkpoint::stored_type::f32, 0});
    copy_other_files(folder, whole.path());
    checkpoint::folder_weights weights(whole.path());
    write_gguf_file(s, weights, whole.path());
    return;
  }
  const std::size_t changed =
      checkpoint::merge_adapter(folder, s.local_dir, s.target_dir, {s.output.dtype, s.output.max_shard_bytes});
  copy_other_files(folder, s.target_dir);
  std::printf("%s: %s with %zu adapted matrices, %s\n", s.target_dir.c_str(), folder.c_str(), changed,
              std::string(name_of(s.output.dtype)).c_str());
}

RLCORE_INLINE std::unique_ptr<checkpoint::weight_source> open_weights(const std::filesystem::path& local_dir,
                                                                      const std::filesystem::path& files) {
  if (const auto world_size = text::is_gguf(local_dir) ? std::nullopt : checkpoint::shard_world_size(local_dir)) {
    auto shards = std::make_unique<checkpoint::sharded_torch>(local_dir, *world_size);
    std::printf("%s: %zu tensors in %zu of %lld shards\n", local_dir.c_str(), shards->weights().size(),
                shards->shards(), static_cast<long long>(*world_size));
    return shards;
  }
  if (std::filesystem::exists(local_dir / "dist_ckpt") || std::filesystem::exists(local_dir / "model" / "dist_ckpt"))
    throw config_error(local_dir.string() + ": holds a Megatron checkpoint (dist_ckpt), which is not read");
  auto folder = std::make_unique<checkpoint::folder_weights>(files);
  std::printf("%s: %zu tensors%s\n", files.c_str(), folder->weights().size(),
              folder->sharded() ? " in the shards of several ranks" : "");
  return folder;
}

RLCORE_INLINE std::optional<checkpoint::adapter_scale> scale_of(const checkpoint::merged_weights& weights,
                                                                const merger_settings& s) {
  if (!weights.has_adapter()) {
    if (s.merge_lora) std::printf("--merge-lora: the weights have no separate adapter; they are written as they are\n");
    return std::nullopt;
  }
  std::optional<checkpoint::adapter_scale> scale = checkpoint::read_adapter_scale(s.local_dir);
  if (s.lora_alpha) scale = checkpoint::adapter_scale{*s.lora_alpha, weights.rank(), scale && scale->rank_stabilised};
  if (!scale)
    throw config_error(s.local_dir.string() +
                       ": holds an adapter, but neither lora_adapter/adapter_config.json nor "
                       "lora_train_meta.json says its lora_alpha; give --lora-alpha");
  if (scale->rank != weights.rank())
    throw config_error(s.local_dir.string() + ": the adapter's matrices have rank " + std::to_string(weights.rank()) +
                       ", its settings say " + std::to_string(scale->rank));
  return scale;
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE void merge_model(const merger_settings& s) {
  namespace fs = std::filesystem;
  using namespace checkpoint;
  if (is_adapter(s.local_dir)) return detail::merge_adapter_folder(s);
  if (detail::holds_adapter_alone(s.local_dir)) {
    merger_settings adapter = s;
    adapter.local_dir /= "lora_adapter";
    return detail::merge_adapter_folder(adapter);
  }
  if (s.base_model)
    throw config_error("--base_model: " + s.local_dir.string() + " is no adapter, it holds whole weights");
  const fs::path files = detail::model_files_of(s.local_dir);
  const json_file config(files / "config.json");
  const bool tied = read_tied(config);
  const std::unique_ptr<weight_source> from = detail::open_weights(s.local_dir, files);
  const merged_weights apart(*from, tied);
  const std::optional<adapter_scale> scale = detail::scale_of(apart, s);
  merged_weights merged(*from, tied, s.merge_lora ? scale : std::nullopt);
  if (merged.dropped_output()) std::printf("lm_head.weight is the embedding (tie_word_embeddings) and left out\n");

  progress bar;
  bar.start(0, 0);
  const auto show = [&](std::uint64_t done, std::uint64_t total) {
    bar.phase(s.test_hf_dir.empty() ? "MB written" : "million elements compared",
              static_cast<std::size_t>(done / 1000000), static_cast<std::size_t>(total / 1000000 + 1));
  };
  if (!s.test_hf_dir.empty()) {
    folder_weights reference(s.test_hf_dir);
    merged_weights expected(reference, tied);
    compare_weights(merged, expected, s.output.dtype, s.test_hf_dir.string(), show);
    bar.finish();
    std::printf("equal: %zu tensors of %s\n", merged.weights().size(), s.test_hf_dir.c_str());
    return;
  }
  if (!s.gguf.empty() && scale && !s.merge_lora)
    throw config_error(s.local_dir.string() +
                       ": holds an adapter apart, for which a GGUF file has no place; expected --merge-lora");
  detail::make_target(s.target_dir, {files, s.local_dir});
  if (!s.gguf.empty()) return static_cast<void>(detail::write_gguf_file(s, merged, files));
  const std::size_t count = stream_to_folder(merged, s.target_dir, s.output, show);
  bar.finish();
  detail::copy_model_files(files, s.target_dir, s.output.dtype);
  if (scale && !s.merge_lora) {
    detail::write_adapter(*from, merged, *scale, s.target_dir / "lora_adapter");
    std::printf("%s: the adapter, alpha %g\n", (s.target_dir / "lora_adapter").c_str(), scale->alpha);
  } else if (fs::exists(s.local_dir / "lora_adapter") && !apart.has_adapter()) {
    std::printf("the weights contain the adapter already; lora_adapter/ is not copied\n");
  }
  std::printf("%s: %zu tensors, %zu file%s of %s\n", s.target_dir.c_str(), merged.weights().size(), count,
              count == 1 ? "" : "s", std::string(name_of(s.output.dtype)).c_str());
}

}  // namespace train
RLCORE_END
#endif
