// Workspace: arena allocator for forward and backward passes, which grows to the largest pass and is reused; the saved
// activations in it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/elementary.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/attention/rope.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/nn/moe/load_balancing.hpp"
#include "rlcore/nn/moe/routing.hpp"
#include "rlcore/nn/parallel/context_plan.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

struct routing;

/// Saved activations of attention; t = tokens, all device memory.
struct attention_activations {
  float* qkv = nullptr;  ///< [t, (heads + 2 kv_heads) d], q and k normed and rotated
  float* raw = nullptr;  ///< [t, (heads + kv_heads) d], q and k before their norms; null without norms
  float *rstd_q = nullptr, *rstd_k = nullptr;  ///< [t, heads], [t, kv_heads]
  float* attended = nullptr;                   ///< [t, heads d]
  float* statistics = nullptr;                 ///< [t, heads, 2]
};

/// gate_up [t, 2 width] = [gate | up], activated [t, width].
struct mlp_activations {
  float *gate_up = nullptr, *activated = nullptr;
};

/// Saved activations of experts, rows in the order of `routes` (routing.hpp): gate_up [slots, 2 width], activated
/// [slots, width]. `logits` [t, experts], `rows` [slots, hidden], `slopes` [slots, width] and `factors` [2, slots] are
/// scratch within a call, shared by all layers. `row` is the first row of the pass among the forward's rows.
struct moe_activations {
  routing* routes = nullptr;
  float *gate_up = nullptr, *activated = nullptr;
  float *rows = nullptr, *slopes = nullptr, *factors = nullptr, *logits = nullptr;
  extent_t row = 0;
};

/// Saved activations of a layer, without its input [t, hidden].
struct block_activations {
  float *normed = nullptr, *rstd = nullptr;  ///< input of the attention
  attention_activations attended;
  float* middle = nullptr;  ///< x + attention
  float *post_attention_normed = nullptr, *middle_rstd = nullptr;
  mlp_activations mixed;
  moe_activations routed;  ///< null in a layer without experts
};

/// Gradients of activations that cannot overwrite the activations; shared by all layers.
struct block_scratch {
  float *dqkv = nullptr, *dattended = nullptr;
};

/// Gathered rows [n, hidden] and their norms.
struct head_activations {
  float *rows = nullptr, *rstd = nullptr, *normed = nullptr;
};

class expert_group;
class unit_source;

/// Adjacent segments [begin, end) of a batch.
struct segment_range {
  std::size_t begin = 0, end = 0;
};

/// Activations, gradients of activations, logits and the rotary tables. Its content is undefined between calls; models
/// of any shape on the same device may share it, one call at a time. After the largest pass, no call allocates device
/// memory.
template <class Device>
class workspace {
 public:
  /// At most `logits_bytes` of logits are in memory at once (0 means the default, 256 MiB), at least 1024. Training
  /// keeps the logits of as many rows as fit from forward to backward and recomputes the rest; 8 MiB are enough, and
  /// scoring never uses more.
  explicit workspace(Device& device, std::size_t logits_bytes = 0)
      : device_(&device), logits_bytes_(logits_bytes ? logits_bytes : std::size_t{256} << 20) {}

  std::size_t logits_bytes() const noexcept { return logits_bytes_; }
  /// Bytes of allocated device memory.
  std::size_t bytes() const noexcept {
    std::size_t total = 0;
    for (const auto& b : blocks_) total += b.size();
    if (vision_) total += vision_->bytes();
    return total + (cosine_.size() + sine_.size()) * sizeof(float);
  }

  /// Releases all allocations.
  void reset() {
    if (blocks_.size() > 1) {
      blocks_.clear();
      blocks_.emplace_back(*device_, most_);
    }
    current_ = used_ = before_ = most_ = 0;
    shared_ = nullptr, shared_size_ = 0;
    routings_taken_ = 0;
  }
  /// Scope guard: releases the allocations made during its lifetime.
  class scope {
   public:
    /// With `gives_back` the destructor frees allocations made since; their blocks stay for later ones.
    explicit scope(workspace& space, bool gives_back = true)
        : space_(gives_back ? &space : nullptr), current_(space.current_), used_(space.used_), before_(space.before_) {}
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    ~scope() {
      if (space_) space_->current_ = current_, space_->used_ = used_, space_->before_ = before_;
    }

   private:
    workspace* space_;
    std::size_t current_, used_, before_;
  };
  /// n uninitialised values of device memory, valid until the next reset(). Large pieces start at equal places of pages
  /// of 4 KiB: a processor that compares addresses by their low bits then sees no store in the way of its loads.
  template <class T>
  T* take(extent_t n) {
    const std::size_t wanted = static_cast<std::size_t>(std::max<extent_t>(n, 1)) * sizeof(T);
    const std::size_t unit = wanted < 65536 ? 64 : 4096, bytes = (wanted + unit - 1) / unit * unit;
    used_ = (used_ + unit - 1) / unit * unit;
    if (used_ > 0 && used_ + bytes > blocks_[current_].size()) before_ += std::exchange(used_, 0), ++current_;
    if (current_ == blocks_.size() || bytes > blocks_[current_].size()) {
      blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(current_), blocks_.end());  // free, and too small
      blocks_.emplace_back(*device_, std::max(bytes, std::size_t{1} << 20));
    }
    std::byte* p = blocks_[current_].data() + used_;
    used_ += bytes;
    most_ = std::max(most_, before_ + used_);
    return static_cast<T*>(static_cast<void*>(p));
  }
  /// The same, filled from the host.
  template <class T>
  T* take_copy(const T* host, extent_t n) {
    T* p = take<T>(n);
    device_->upload(p, host, static_cast<std::size_t>(n) * sizeof(T));
    return p;
  }

  /// Scratch of n values within one call of a layer: the same memory for all layers.
  float* take_shared(extent_t n) {
    if (n > shared_size_) shared_ = take<float>(n), shared_size_ = n;
    return shared_;
  }
  /// Host memory of one layer's routing, valid until the next reset().
  routing& take_routing() {
    if (routings_taken_ == routings_.size()) routings_.push_back(std::make_unique<routing>());
    return *routings_[routings_taken_++];
  }

  /// Tables of cos and sin of position * theta^(-2j/d), scaled as config::rope_scaling says, [positions, d/2], rounded
  /// to float where `transformers` rounds.
  void prepare_rope(const config& c, extent_t wanted) {
    const extent_t half = static_cast<extent_t>(c.head_dim) / 2;
    const bool same = half == half_ && c.rope_theta == theta_ && c.rope_scaling == rope_;
    if (same && wanted <= positions_) return;
    if (same) wanted = std::max(wanted, 2 * positions_);
    half_ = half, theta_ = c.rope_theta, rope_ = c.rope_scaling, positions_ = wanted;
    const auto [inverse, magnitude] = make_rope_frequencies(theta_, half, rope_);
    std::vector<float> angles;
    for (extent_t p = 0; p < wanted; ++p)
      for (const float f : inverse) angles.push_back(static_cast<float>(p) * f);
    set_tables(angles, magnitude);
  }
  /// Tables of given angles [rows, half] in their place: `positions` of a pass are then rows of these.
  void set_rope(const std::vector<float>& angles, extent_t half) {
    half_ = half, theta_ = 0, positions_ = 0;
    set_tables(angles, 1);
  }
  const float* cosine() const noexcept { return cosine_.data(); }
  const float* sine() const noexcept { return sine_.data(); }

  /// Memory of a vision tower's pass, which lives as long as the language model's.
  workspace& vision() {
    if (!vision_) vision_ = std::make_unique<workspace>(*device_, logits_bytes_);
    return *vision_;
  }

  /// The context group of passes over packed sequences, if any.
  context_group context;
  /// Of training passes over a model that holds its weights: they enter its units (unit_packer), unless it is null.
  unit_source* units = nullptr;
  /// The expert parallel group of training passes; its ranks run the same passes. Must outlive them.
  expert_group* experts = nullptr;

  // Host memory reused between calls.
  std::vector<std::int32_t> ids, positions, pages, index;
  std::vector<attention_segment> segments;
  std::vector<attention_segment_gradient> segment_gradients;
  std::vector<float> logp, entropy, dlogp, dentropy;
  std::vector<block_activations> kept;
  std::vector<std::int32_t> ids_here, rows_here;  // tokens of this rank's part of the vocabulary
  std::vector<float> factor, dweight;
  std::vector<std::int16_t> replayed, replayed_rows;  // expert_choices of this rank's rows, and of selected rows
  std::vector<std::int16_t> chosen_experts;           ///< expert_choices of the last pass over packed sequences
  router_counts routed;                               ///< of the last pass over packed sequences, with experts
  // Those of active_rows.hpp.
  std::vector<std::int32_t> active, counts;
  std::vector<segment_range> ranges;
  std::vector<attention_segment> batch_segments;

 private:
  void set_tables(const std::vector<float>& angles, float magnitude) {
    std::vector<float> cosine, sine;
    for (const float f : angles) {
      const auto angle = static_cast<double>(f);
      cosine.push_back(static_cast<float>(elementary::cos(angle)) * magnitude);
      sine.push_back(static_cast<float>(elementary::sin(angle)) * magnitude);
    }
    if (cosine_.size() < cosine.size()) {
      cosine_ = buffer<float, Device>(*device_, cosine.size());
      sine_ = buffer<float, Device>(*device_, sine.size());
    }
    device_->upload(cosine_.data(), cosine.data(), cosine.size() * sizeof(float));
    device_->upload(sine_.data(), sine.data(), sine.size() * sizeof(float));
  }

  Device* device_;
  std::size_t logits_bytes_;
  std::size_t current_ = 0, used_ = 0, before_ = 0, most_ = 0;  // block; used in it and in earlier ones; peak
  std::vector<buffer<std::byte, Device>> blocks_;
  buffer<float, Device> cosine_, sine_;
  std::unique_ptr<workspace> vision_;
  float* shared_ = nullptr;
  extent_t shared_size_ = 0;
  std::vector<std::unique_ptr<routing>> routings_;
  std::size_t routings_taken_ = 0;
  extent_t half_ = 0, positions_ = 0;
  double theta_ = 0;
  rope_settings rope_;
};

}  // namespace nn
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {
extern template class workspace<cpu>;
extern template class workspace<any_device>;
}  // namespace nn
RLCORE_END
#endif
