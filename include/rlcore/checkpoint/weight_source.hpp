// Sources of weights: a folder, or one with merged or stacked tensors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/tensor_folder.hpp"
#include "rlcore/checkpoint/tensor_info.hpp"
#include "rlcore/core/dtype.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/nn/vision/vision_config.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// Can read_f32() read this type? That is f32, f16, bf16 and f64.
constexpr bool is_floating(stored_type type) noexcept {
  return type == stored_type::f32 || type == stored_type::f16 || type == stored_type::bf16 || type == stored_type::f64;
}

/// Name, type and shape of one tensor.
struct weight {
  std::string name;
  stored_type dtype = stored_type::f32;
  std::vector<std::int64_t> shape;

  std::uint64_t size() const noexcept {
    std::uint64_t n = 1;
    for (const std::int64_t extent : shape) n *= static_cast<std::uint64_t>(extent);
    return n;
  }
};

/// A model's tensors, sorted by name.
class weight_source {
 public:
  weight_source() = default;
  weight_source(const weight_source&) = delete;
  weight_source& operator=(const weight_source&) = delete;
  virtual ~weight_source() = default;

  const std::vector<weight>& weights() const noexcept { return weights_; }
  /// nullptr for an unknown name.
  const weight* find(std::string_view name) const {
    const auto at = std::lower_bound(weights_.begin(), weights_.end(), name,
                                     [](const weight& w, std::string_view n) { return w.name < n; });
    return at != weights_.end() && at->name == name ? &*at : nullptr;
  }
  /// The stored bytes of the elements from `first` on, in row-major order. `w` is one of weights().
  virtual void read_bytes(const weight& w, std::uint64_t first, std::span<std::byte> bytes) = 0;

  /// The same elements as floats; throws format_error when the type is not a floating one.
  void read_f32(const weight& w, std::uint64_t first, std::span<float> values);

 protected:
  std::vector<weight> weights_;

 private:
  float element(stored_type type, std::size_t i) const noexcept;

  std::vector<std::byte> scratch_;
};

/// The safetensors of a Hugging Face folder, or the shards beside it.
class folder_weights final : public weight_source {
 public:
  /// Throws what tensor_folder throws.
  explicit folder_weights(const std::filesystem::path& folder);
  /// As tensor_folder::read_bytes.
  void read_bytes(const weight& w, std::uint64_t first, std::span<std::byte> bytes) override {
    folder_.read_bytes(w.name, bytes, first * bytes_of(w.dtype));
  }
  /// Are these the shards of several ranks?
  bool sharded() const noexcept { return folder_.shards() != nullptr; }

 private:
  tensor_folder folder_;
};

/// What a low-rank adapter adds to W [out, in]: (alpha / rank) B A, or (alpha / sqrt(rank)) B A with rank-stabilised
/// scaling (Hu et al., "LoRA", 2021; Kalajdzievski, 2023).
struct adapter_scale {
  double alpha = 0;
  std::int64_t rank = 0;
  bool rank_stabilised = false;

  float factor() const noexcept {
    const auto r = static_cast<double>(rank);
    return static_cast<float>(alpha / (rank_stabilised ? std::sqrt(r) : r));
  }
};

/// alpha and rank recorded by the training: lora_adapter/adapter_config.json or lora_train_meta.json beside the shards.
/// Older versions of verl wrote alpha 0, which counts as unknown. Empty if neither file has them.
std::optional<adapter_scale> read_adapter_scale(const std::filesystem::path& folder);

/// Another source seen with the names and the content that a model folder has on disk.
class merged_weights final : public weight_source {
 public:
  /// The adapter's matrices for one module; names in the wrapped source.
  struct low_rank {
    const weight *a = nullptr, *b = nullptr;
  };

  /// `tied`: lm_head.weight is left out (it is the embedding). `merge`: with a scale, W + factor B A replaces W where
  /// the source has an adapter. Throws format_error for an adapter without its module or with other shapes.
  merged_weights(weight_source& from, bool tied, const std::optional<adapter_scale>& merge = std::nullopt);

  bool has_adapter() const noexcept { return !adapters_.empty(); }
  bool dropped_output() const noexcept { return dropped_output_; }
  /// Module weight -> matrices, sorted.
  const std::map<std::string, low_rank>& adapters() const noexcept { return adapters_; }
  /// The rank of the first adapter.
  std::int64_t rank() const { return adapters_.begin()->second.a->shape[0]; }

  /// The source's bytes; of a weight that an adapter changes, floats with factor() B A added.
  void read_bytes(const weight& w, std::uint64_t first, std::span<std::byte> bytes) override;

 private:
  static constexpr std::string_view prefix = "base_model.model.";

  /// "base_model.model.x.base_layer.weight" -> "x.weight", under the name on disk.
  static std::string plain_name(const std::string& name);
  void note_adapter(const weight& w);
  void check_adapter(const std::string& name, const low_rank& pair) const;
  std::vector<std::string> from_names() const {
    std::vector<std::string> names;
    for (const auto& [name, w] : sources_) names.push_back(name);
    return names;
  }
  /// values += factor B A for the elements from `first` on of a matrix with `columns` columns.
  void add(const low_rank& pair, std::uint64_t first, std::uint64_t columns, std::span<float> values);

  weight_source& from_;
  std::optional<adapter_scale> merge_;
  std::map<std::string, const weight*> sources_;  // name in the folder -> in the source
  std::map<std::string, low_rank> adapters_;
  bool dropped_output_ = false;
  const weight* loaded_ = nullptr;
  std::vector<float> a_, b_;
};

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint {

RLCORE_INLINE void weight_source::read_f32(const weight& w, std::uint64_t first, std::span<float> values) {
  if (w.dtype == stored_type::f32) return read_bytes(w, first, std::as_writable_bytes(values));
  if (!is_floating(w.dtype))
    throw format_error("tensor '" + data::printable(w.name) + "' is stored as " + std::string(name_of(w.dtype)) +
                       "; expected a floating type");
  scratch_.resize(values.size() * bytes_of(w.dtype));
  read_bytes(w, first, scratch_);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = element(w.dtype, i);
}

RLCORE_INLINE float weight_source::element(stored_type type, std::size_t i) const noexcept {
  if (type == stored_type::f64) {
    double x;
    std::memcpy(&x, scratch_.data() + 8 * i, 8);
    return static_cast<float>(x);
  }
  std::uint16_t bits;
  std::memcpy(&bits, scratch_.data() + 2 * i, 2);
  bf16 b;
  f16 h;
  b.bits = h.bits = bits;
  return type == stored_type::bf16 ? static_cast<float>(b) : static_cast<float>(h);
}

RLCORE_INLINE folder_weights::folder_weights(const std::filesystem::path& folder) : folder_(folder) {
  for (const std::string& name : folder_.names()) {
    const tensor_info& info = folder_.info(name);
    weights_.push_back({name, info.dtype, info.shape});
  }
}

RLCORE_INLINE std::optional<adapter_scale> read_adapter_scale(const std::filesystem::path& folder) {
  for (const char* name : {"lora_adapter/adapter_config.json", "lora_train_meta.json"}) {
    if (!std::filesystem::exists(folder / name)) continue;
    const json_file file(folder / name);
    if (!file.has("lora_alpha") || !file.has("r") || file.root()["lora_alpha"] == 0) continue;
    if (file.boolean("use_dora", false)) file.fail("use_dora", "false");
    return adapter_scale{file.positive("lora_alpha"), file.integer("r"), file.boolean("use_rslora", false)};
  }
  return std::nullopt;
}

RLCORE_INLINE merged_weights::merged_weights(weight_source& from, bool tied, const std::optional<adapter_scale>& merge)
    : from_(from), merge_(merge) {
  for (const weight& w : from.weights()) {
    if (w.name.find(".lora_") != std::string::npos) {
      note_adapter(w);
    } else if (const std::string name = plain_name(w.name); !(tied && name == output_name)) {
      if (const auto [at, is_new] = sources_.try_emplace(name, &w); !is_new)
        throw format_error("tensors '" + data::printable(at->second->name) + "' and '" + data::printable(w.name) +
                           "' are one; expected either name");
    } else {
      dropped_output_ = true;
    }
  }
  for (const auto& [name, w] : sources_) {
    const bool changes = merge_ && adapters_.contains(name);
    weights_.push_back({name, changes ? stored_type::f32 : w->dtype, w->shape});
  }
  for (const auto& [name, pair] : adapters_) check_adapter(name, pair);
}

RLCORE_INLINE void merged_weights::read_bytes(const weight& w, std::uint64_t first, std::span<std::byte> bytes) {
  const weight& source = *sources_.at(w.name);
  const auto adapter = adapters_.find(w.name);
  if (!merge_ || adapter == adapters_.end()) return from_.read_bytes(source, first, bytes);
  std::vector<float> values(bytes.size() / sizeof(float));
  from_.read_f32(source, first, values);
  add(adapter->second, first, static_cast<std::uint64_t>(w.shape[1]), values);
  std::memcpy(bytes.data(), values.data(), bytes.size());
}

RLCORE_INLINE std::string merged_weights::plain_name(const std::string& name) {
  std::string out = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
  for (const std::string_view end : {".weight", ".bias"})
    if (const std::string layer = ".base_layer" + std::string(end); out.ends_with(layer))
      out.replace(out.size() - layer.size(), layer.size(), end);
  return nn::name_on_disk(out);
}

RLCORE_INLINE void merged_weights::note_adapter(const weight& w) {
  for (const bool a : {true, false})
    for (const char* end : {".weight", ".default.weight"}) {
      const std::string tail = std::string(a ? ".lora_A" : ".lora_B") + end;
      if (!w.name.ends_with(tail) || w.shape.size() != 2) continue;
      const std::string module = w.name.substr(0, w.name.size() - tail.size());
      low_rank& pair = adapters_[plain_name(module + ".weight")];
      (a ? pair.a : pair.b) = &w;
      return;
    }
  throw format_error("tensor '" + data::printable(w.name) + "' " + shape_text(w.shape) +
                     " is no matrix lora_A or lora_B of one adapter named default");
}

RLCORE_INLINE void merged_weights::check_adapter(const std::string& name, const low_rank& pair) const {
  const auto module = sources_.find(name);
  if (module == sources_.end())
    throw format_error("the adapter has matrices for '" + data::printable(name) + "', which the model lacks" +
                       did_you_mean(name, from_names()));
  const std::vector<std::int64_t>& w = module->second->shape;
  if (pair.a == nullptr || pair.b == nullptr || w.size() != 2 || pair.a->shape[0] != pair.b->shape[1] ||
      pair.a->shape[1] != w[1] || pair.b->shape[0] != w[0])
    throw format_error("the adapter's matrices do not fit '" + data::printable(name) + "' " + shape_text(w) +
                       "; expected lora_A [r, in] and lora_B [out, r]");
}

RLCORE_INLINE void merged_weights::add(const low_rank& pair, std::uint64_t first, std::uint64_t columns,
                                       std::span<float> values) {
  if (loaded_ != pair.a) {
    a_.resize(static_cast<std::size_t>(pair.a->size()));
    b_.resize(static_cast<std::size_t>(pair.b->size()));
    from_.read_f32(*pair.a, 0, a_);
    from_.read_f32(*pair.b, 0, b_);
    loaded_ = pair.a;
  }
  const auto rank = static_cast<std::size_t>(pair.a->shape[0]);
  const float factor = merge_->factor();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto row = static_cast<std::size_t>((first + i) / columns),
               column = static_cast<std::size_t>((first + i) % columns);
    float sum = 0;
    for (std::size_t k = 0; k < rank; ++k) sum += b_[row * rank + k] * a_[k * columns + column];
    values[i] += factor * sum;
  }
}

}  // namespace checkpoint
RLCORE_END
#endif
