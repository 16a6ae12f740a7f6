// Weight source: named tensors that are read piece by piece from any storage.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "rlcore/checkpoint/tensor_folder.hpp"
#include "rlcore/checkpoint/tensor_info.hpp"
#include "rlcore/core/dtype.hpp"
#include "rlcore/core/error.hpp"

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

}  // namespace checkpoint
RLCORE_END
#endif
