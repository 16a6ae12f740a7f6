// Merges a base model and an adapter into one model, with one tensor in memory at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "rlcore/checkpoint/adapter.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/tensor_folder.hpp"
#include "rlcore/checkpoint/write_config.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// Output options of merge_adapter.
struct merge_settings {
  std::optional<stored_type> type = {};  ///< of the floats written; unset: each tensor keeps the base's
  std::uint64_t max_shard_bytes = 0;     ///< 0: one file
};

/// The tensors of an adapter by the weights that they change. They are checked against each other and the base.
class adapter_weights {
 public:
  /// Reads PEFT's adapter_config.json and the tensor list of adapter_model.safetensors. Throws format_error if a tensor
  /// has another name or shape than the configuration and the base imply, or lacks its partner.
  adapter_weights(const std::filesystem::path& folder, const tensor_folder& base);

  const adapter_config& config() const noexcept { return config_; }
  /// Its file.
  const std::filesystem::path& path() const noexcept { return file_.path(); }
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

  /// Adds scale B A to `values`, the whole rectangle `piece` of a weight [outputs, inputs].
  void add(const shard_piece& piece, std::span<float> values) const;

 private:
  std::size_t read(const std::string& name, std::vector<float>& values) const {
    values.resize(static_cast<std::size_t>(file_.info(name).size()));
    file_.read_f32(name, values);
    return values.size();
  }

  adapter_config config_;
  safetensors_reader file_;
  std::map<std::string, std::string> adapted_;  // weight -> its module in the file
  std::set<std::string> whole_;
  mutable std::vector<float> a_, b_, row_;
};

namespace detail {

/// Can an adapter be added to values of this type?
inline bool is_mergeable(stored_type type) {
  return type == stored_type::f32 || type == stored_type::f16 || type == stored_type::bf16;
}

/// The tensors of base and adapter together, in the order of their names and with the types to write. `new_head`: the
/// adapter's head replaces the output projection. Throws format_error where an adapted tensor is not of floats.
std::vector<tensor_info> merged_tensors(const tensor_folder& base, const adapter_weights& adapter, bool new_head,
                                        const std::optional<stored_type>& type);

/// Appends the merged tensor `t`; `values` is a reusable buffer.
void append_merged(safetensors_writer& writer, const tensor_info& t, const tensor_folder& base,
                   const adapter_weights& adapter, std::vector<float>& values);

/// Writes all shards and, if there are several, their index; removes other weights in `target`.
void write_merged(std::span<const tensor_info> tensors, const tensor_folder& base, const adapter_weights& adapter,
                  const std::filesystem::path& target, std::uint64_t max_shard_bytes);

}  // namespace detail

/// Fills `weights`, a rank's part of a model or the whole, with "base + scale B A": to the bit those of the model that
/// merge_adapter() writes as F32; ranks that divide experts leave each other's out. Throws format_error unless the base
/// has exactly `parameters` beside such experts, and for an adapter of a tied head.
void load_merged(const tensor_folder& base, const adapter_weights& adapter, std::span<const nn::parameter> parameters,
                 std::span<float> weights);

/// Writes the model "base + scale B A" into `target`: its safetensors, config.json and generation_config.json, but no
/// tokenizer. A causal base with the adapter of a score model becomes a score model. Returns the number of weights that
/// the adapter changed. If base and adapter do not fit together, throws file_error or format_error before it writes
/// anything.
std::size_t merge_adapter(const std::filesystem::path& base_folder, const std::filesystem::path& adapter_folder,
                          const std::filesystem::path& target, const merge_settings& settings = {});

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint {

RLCORE_INLINE adapter_weights::adapter_weights(const std::filesystem::path& folder, const tensor_folder& base)
    : config_(read_adapter_config(folder)), file_(folder / adapter_weights_name) {
  const std::map<std::string, std::string> names = adapter_names(file_);
  for (const auto& [name, stored] : names) {
    const tensor_info& t = file_.info(stored);
    const auto fail = [&](const std::string& message) {
      throw format_error(file_.path().string() + ": tensor '" + data::printable(t.name) + "' " + message);
    };
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
    const std::string stored_module = stored.substr(0, stored.size() - 14);
    file_.info(stored_module + (a ? ".lora_B.weight" : ".lora_A.weight"));  // or format_error
    adapted_.insert_or_assign(weight, stored_module);
  }
  if (adapted_.empty()) throw format_error(file_.path().string() + ": no lora_A and lora_B tensors");
}

RLCORE_INLINE void adapter_weights::add(const shard_piece& piece, std::span<float> values) const {
  const std::string& module = adapted_.at(piece.tensor);
  const auto r = static_cast<std::size_t>(config_.lora.rank), inputs = read(module + ".lora_A.weight", a_) / r;
  read(module + ".lora_B.weight", b_);
  const auto scale = static_cast<float>(config_.scale);
  const auto row = static_cast<std::size_t>(piece.start[0]), rows = static_cast<std::size_t>(piece.extent[0]);
  const auto column = static_cast<std::size_t>(piece.start[1]), columns = static_cast<std::size_t>(piece.extent[1]);
  row_.resize(columns);
  for (std::size_t o = 0; o < rows; ++o) {
    std::fill(row_.begin(), row_.end(), 0.0f);
    for (std::size_t k = 0; k < r; ++k)
      for (std::size_t i = 0; i < columns; ++i) row_[i] += b_[(row + o) * r + k] * a_[k * inputs + column + i];
    for (std::size_t i = 0; i < columns; ++i) values[o * columns + i] += scale * row_[i];
  }
}

}  // namespace checkpoint

namespace checkpoint::detail {

RLCORE_INLINE std::vector<tensor_info> merged_tensors(const tensor_folder& base, const adapter_weights& adapter,
                                                      bool new_head, const std::optional<stored_type>& type) {
  std::vector<tensor_info> tensors;
  for (const std::string& name : base.names())
    if (!adapter.whole().contains(name) && !(new_head && name == output_name)) tensors.push_back(base.info(name));
  for (const std::string& name : adapter.whole()) {
    tensors.push_back(adapter.whole_info(name));
    tensors.back().name = name;
  }
  std::sort(tensors.begin(), tensors.end(), [](const auto& x, const auto& y) { return x.name < y.name; });
  for (tensor_info& t : tensors) {
    if (!is_mergeable(t.dtype) && adapter.adapts(t.name))
      throw format_error(base.path().string() + ": tensor '" + data::printable(t.name) + "' is stored as " +
                         std::string(name_of(t.dtype)) + "; expected F32, F16 or BF16");
    if (type && is_mergeable(t.dtype)) t.dtype = *type;
  }
  return tensors;
}

RLCORE_INLINE void append_merged(safetensors_writer& writer, const tensor_info& t, const tensor_folder& base,
                                 const adapter_weights& adapter, std::vector<float>& values) {
  const bool whole = adapter.whole().contains(t.name);
  if (!whole && !is_mergeable(t.dtype)) {
    std::vector<std::byte> raw(base.info(t.name).bytes());
    base.read_bytes(t.name, raw);
    writer.append_bytes(raw);
    return;
  }
  values.resize(parallel::elements_of(t.shape));
  if (whole) {
    adapter.read_whole(t.name, values);
  } else {
    base.read_f32(t.name, values);
    if (adapter.adapts(t.name)) adapter.add(parallel::whole_tensor(t.name, t.shape), values);
  }
  if (whole || adapter.adapts(t.name)) check_finite(adapter.path(), t.name, values);
  writer.append(values);
}

RLCORE_INLINE void write_merged(std::span<const tensor_info> tensors, const tensor_folder& base,
                                const adapter_weights& adapter, const std::filesystem::path& target,
                                std::uint64_t max_shard_bytes) {
  std::vector<std::uint64_t> bytes;
  for (const tensor_info& t : tensors) bytes.push_back(parallel::elements_of(t.shape) * bytes_of(t.dtype));
  const std::vector<std::size_t> bounds = shard_bounds(bytes, max_shard_bytes);
  const std::size_t shards = bounds.size() - 1;
  std::filesystem::create_directories(target);
  std::set<std::string> written;
  nlohmann::json map = nlohmann::json::object();
  std::vector<float> values;
  for (std::size_t s = 0; s < shards; ++s) {
    const std::string name = shard_name(s, shards);
    const auto part = tensors.subspan(bounds[s], bounds[s + 1] - bounds[s]);
    replace_file(target / name, [&](const std::filesystem::path& temporary) {
      safetensors_writer writer(temporary, {part.begin(), part.end()});
      for (const tensor_info& t : part) {
        map[t.name] = name;
        append_merged(writer, t, base, adapter, values);
      }
      writer.finish();
    });
    written.insert(name);
  }
  if (shards > 1) {
    const std::uint64_t total = std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
    const nlohmann::json index{{"metadata", {{"total_size", total}}}, {"weight_map", map}};
    write_file_atomically(target / "model.safetensors.index.json", text::json_text(index, 2) + "\n");
    written.insert("model.safetensors.index.json");
  }
  remove_other_weights(target, written);
}

}  // namespace checkpoint::detail

namespace checkpoint {

RLCORE_INLINE void load_merged(const tensor_folder& base, const adapter_weights& adapter,
                               std::span<const nn::parameter> parameters, std::span<float> weights) {
  if (!adapter.whole().empty())
    throw format_error("the adapter is that of a score model: it has '" + *adapter.whole().begin() + "'");
  load_weights(base, parameters, weights, [](const std::string&) { return false; });
  const std::string output(output_name);
  if (adapter.adapts(output) && std::ranges::find(parameters, output, &nn::parameter::name) == parameters.end())
    throw format_error("the adapter changes '" + output + "', which is the model's embedding");
  for (const nn::parameter& p : parameters) {
    if (!adapter.adapts(p.name)) continue;
    const auto values = weights.subspan(p.offset, p.size);
    adapter.add(piece_of(p), values);
    check_finite(adapter.path(), p.name, values);
  }
}

RLCORE_INLINE std::size_t merge_adapter(const std::filesystem::path& base_folder,
                                        const std::filesystem::path& adapter_folder,
                                        const std::filesystem::path& target, const merge_settings& settings) {
  const tensor_folder base(base_folder);
  const adapter_weights adapter(adapter_folder, base);
  nn::config config = read_config(base_folder);
  const bool new_head = !adapter.whole().empty() && config.output == nn::model_output::logits;
  const std::vector<tensor_info> tensors = detail::merged_tensors(base, adapter, new_head, settings.type);
  detail::write_merged(tensors, base, adapter, target, settings.max_shard_bytes);
  if (new_head) {
    config.output = nn::model_output::score;
    config.score_bias = adapter.whole().contains("score.bias");
  }
  stored_type most = stored_type::f32;  // the type in config.json
  for (const tensor_info& t : tensors)
    if (t.name == embedding_name) most = t.dtype;
  write_config(target, config, most, base_folder);
  return adapter.size();
}

}  // namespace checkpoint
RLCORE_END
#endif
