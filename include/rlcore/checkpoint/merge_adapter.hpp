// Merges a base model and an adapter into one model, with one tensor in memory at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "rlcore/checkpoint/adapter.hpp"
#include "rlcore/checkpoint/model_config.hpp"
#include "rlcore/checkpoint/tensor_folder.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// How merge_adapter writes the merged model.
struct merge_settings {
  std::optional<stored_type> type = {};  ///< of the floats written; unset: each tensor keeps the base's
  std::uint64_t max_shard_bytes = 0;     ///< 0: one file
};

/// The tensors of an adapter by the weights that they change. They are checked against each other and the base.
class adapter_weights {
 public:
  /// Reads PEFT's adapter_config.json and the tensor list of adapter_model.safetensors. Throws format_error if a tensor
  /// has another name or shape than the configuration and the base imply, or lacks its partner.
  adapter_weights(const std::filesystem::path& folder, const tensor_folder& base)
      : config_(read_adapter_config(folder)), file_(folder / adapter_weights_name) {
    for (const tensor_info& t : file_.tensors()) {
      const auto fail = [&](const std::string& message) {
        throw format_error(file_.path().string() + ": tensor '" + data::printable(t.name) + "' " + message);
      };
      if (!t.name.starts_with(adapter_prefix)) fail("does not begin with " + std::string(adapter_prefix));
      const std::string name = t.name.substr(adapter_prefix.size());
      if (name.starts_with("score.")) {
        whole_.insert(name);
        continue;
      }
      const bool a = name.ends_with(".lora_A.weight"), b = name.ends_with(".lora_B.weight");
      if (!a && !b) fail("is neither lora_A.weight nor lora_B.weight");
      const std::string module = name.substr(0, name.size() - 14), weight = module + ".weight";
      if (!base.contains(weight)) fail("adapts '" + weight + "', which " + base.path().string() + " does not have");
      const std::vector<std::int64_t>& shape = base.info(weight).shape;
      const std::int64_t r = config_.lora.rank;
      const std::vector<std::int64_t> expected = shape.size() != 2 ? std::vector<std::int64_t>{}
                                                 : a               ? std::vector{r, shape[1]}
                                                                   : std::vector{shape[0], r};
      if (t.shape != expected) fail("has shape " + shape_text(t.shape) + "; expected " + shape_text(expected));
      file_.info(std::string(adapter_prefix) + module + (a ? ".lora_B.weight" : ".lora_A.weight"));  // or format_error
      adapted_.insert(weight);
    }
    if (adapted_.empty()) throw format_error(file_.path().string() + ": no lora_A and lora_B tensors");
  }

  const adapter_config& config() const noexcept { return config_; }
  std::size_t size() const noexcept { return adapted_.size(); }
  /// Does the adapter change the base's tensor of that name?
  bool adapts(const std::string& weight) const { return adapted_.contains(weight); }
  /// The tensors that replace those of the base: the head of a score model.
  const std::set<std::string>& whole() const noexcept { return whole_; }
  /// Type and shape of one of whole(), by its name in the base.
  const tensor_info& whole_info(const std::string& name) const {
    return file_.info(std::string(adapter_prefix) + name);
  }
  /// Reads one of whole() as floats, by its name in the base.
  void read_whole(const std::string& name, std::span<float> values) const {
    file_.read_f32(std::string(adapter_prefix) + name, values);
  }

  /// Adds scale B A to `values` [outputs, inputs] for the weight of that name.
  void add(const std::string& weight, std::span<float> values) const {
    const std::string module = std::string(adapter_prefix) + weight.substr(0, weight.size() - 7);
    const auto r = static_cast<std::size_t>(config_.lora.rank), inputs = read(module + ".lora_A.weight", a_) / r,
               outputs = read(module + ".lora_B.weight", b_) / r;
    const auto scale = static_cast<float>(config_.scale);
    row_.resize(inputs);
    for (std::size_t o = 0; o < outputs; ++o) {
      std::fill(row_.begin(), row_.end(), 0.0f);
      for (std::size_t k = 0; k < r; ++k)
        for (std::size_t i = 0; i < inputs; ++i) row_[i] += b_[o * r + k] * a_[k * inputs + i];
      for (std::size_t i = 0; i < inputs; ++i) values[o * inputs + i] += scale * row_[i];
    }
  }

 private:
  std::size_t read(const std::string& name, std::vector<float>& values) const {
    values.resize(static_cast<std::size_t>(file_.info(name).size()));
    file_.read_f32(name, values);
    return values.size();
  }

  adapter_config config_;
  safetensors_reader file_;
  std::set<std::string> adapted_, whole_;
  mutable std::vector<float> a_, b_, row_;
};

/// Writes the model "base + scale B A" into `target`: its safetensors, config.json and generation_config.json, but no
/// tokenizer. A causal base with the adapter of a score model becomes a score model. Returns the number of weights that
/// the adapter changed. If base and adapter do not fit together, throws file_error or format_error before it writes
/// anything.
inline std::size_t merge_adapter(const std::filesystem::path& base_folder, const std::filesystem::path& adapter_folder,
                                 const std::filesystem::path& target, const merge_settings& settings = {}) {
  const tensor_folder base(base_folder);
  const adapter_weights adapter(adapter_folder, base);
  nn::config config = read_config(base_folder);
  const bool new_head = !adapter.whole().empty() && config.output == nn::model_output::logits;

  std::vector<tensor_info> tensors;
  for (const std::string& name : base.names())
    if (!adapter.whole().contains(name) && !(new_head && name == output_name)) tensors.push_back(base.info(name));
  for (const std::string& name : adapter.whole()) {
    tensors.push_back(adapter.whole_info(name));
    tensors.back().name = name;
  }
  std::sort(tensors.begin(), tensors.end(), [](const auto& x, const auto& y) { return x.name < y.name; });
  stored_type most = stored_type::f32;  // what config.json will say
  for (tensor_info& t : tensors) {
    const bool floats = t.dtype == stored_type::f32 || t.dtype == stored_type::f16 || t.dtype == stored_type::bf16;
    if (!floats && adapter.adapts(t.name))
      throw format_error(base_folder.string() + ": tensor '" + data::printable(t.name) + "' is stored as " +
                         std::string(name_of(t.dtype)) + "; expected F32, F16 or BF16");
    if (floats && settings.type) t.dtype = *settings.type;
    if (t.name == embedding_name) most = t.dtype;
  }

  std::vector<std::size_t> first{0};
  std::uint64_t total = 0, in_shard = 0;
  const auto bytes = [](const tensor_info& t) {
    std::uint64_t n = bytes_of(t.dtype);
    for (const std::int64_t e : t.shape) n *= static_cast<std::uint64_t>(e);
    return n;
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (settings.max_shard_bytes > 0 && in_shard > 0 && in_shard + bytes(tensors[i]) > settings.max_shard_bytes) {
      first.push_back(i);
      in_shard = 0;
    }
    in_shard += bytes(tensors[i]), total += bytes(tensors[i]);
  }
  const std::size_t shards = first.size();
  first.push_back(tensors.size());
  std::filesystem::create_directories(target);
  std::set<std::string> written;
  nlohmann::json map = nlohmann::json::object();
  std::vector<float> values;
  for (std::size_t s = 0; s < shards; ++s) {
    char name[64] = "model.safetensors";
    if (shards > 1) std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", s + 1, shards);
    const auto part = std::span(tensors).subspan(first[s], first[s + 1] - first[s]);
    replace_file(target / name, [&](const std::filesystem::path& temporary) {
      safetensors_writer writer(temporary, {part.begin(), part.end()});
      for (const tensor_info& t : part) {
        map[t.name] = name;
        const bool whole = adapter.whole().contains(t.name);
        if (!whole && t.dtype != stored_type::f32 && t.dtype != stored_type::f16 && t.dtype != stored_type::bf16) {
          std::vector<std::byte> raw(base.info(t.name).bytes());
          base.read_bytes(t.name, raw);
          writer.append_bytes(raw);
          continue;
        }
        values.resize(static_cast<std::size_t>(bytes(t) / bytes_of(t.dtype)));
        if (whole) {
          adapter.read_whole(t.name, values);
        } else {
          base.read_f32(t.name, values);
          if (adapter.adapts(t.name)) adapter.add(t.name, values);
        }
        writer.append(values);
      }
      writer.finish();
    });
    written.insert(name);
  }
  if (shards > 1) {
    const nlohmann::json index{{"metadata", {{"total_size", total}}}, {"weight_map", map}};
    write_file_atomically(target / "model.safetensors.index.json", index.dump(2) + "\n");
    written.insert("model.safetensors.index.json");
  }
  remove_other_weights(target, written);
  if (new_head) {
    config.output = nn::model_output::score;
    config.score_bias = adapter.whole().contains("score.bias");
  }
  write_config(target, config, most);
  return adapter.size();
}

}  // namespace checkpoint
RLCORE_END
