// NVIDIA GPU device: own kernels, compiled on the machine by NVRTC, with the bits of rlcore::cpu.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/device/arguments.hpp"
#include "rlcore/device/cpu/arguments.hpp"
#include "rlcore/device/cuda/arguments.hpp"
#include "rlcore/device/cuda/provider.hpp"
#include "rlcore/device/cuda/queue.hpp"
#include "rlcore/device/device.hpp"

RLCORE_BEGIN

/// Settings of a cuda device.
struct cuda_settings {
  int device = 0;  ///< number of the GPU
  rlcore::compute compute = rlcore::compute::float32;
  bool sync_each_operation = false;  ///< waits after every kernel, so that an error names the one that failed
  std::string cache = {};            ///< folder of compiled kernels; empty: as docs/cuda.md says; "none": none
};

/// Device policy of one NVIDIA GPU or of the emulator, depending on the provider. Downloads and large uploads wait,
/// kernels do not. One call at a time, from one thread at a time.
///
/// In float32 every sum has the order of rlcore::cpu, so results have its bits, and laws 1, 2 and 3 hold. In bfloat16,
/// products are those of the tensor cores, in steps of 16 places of the depth in order, whatever the number of rows:
/// laws 1 and 3 hold, 2 up to rounding. GPUs before 8.0 have no tensor cores for bfloat16 and round the inputs alone.
class cuda {
 public:
  static constexpr bool host_readable = false;

  /// A GPU of this machine. Throws device_error, which says what is missing and what to install.
  explicit cuda(cuda_settings settings = {}) : cuda(nvidia::installed_provider(), std::move(settings)) {}
  /// A GPU of a provider.
  explicit cuda(nvidia::provider functions, cuda_settings settings = {});
  cuda(const cuda&) = delete;
  cuda& operator=(const cuda&) = delete;

  std::string_view name() const noexcept { return "cuda"; }
  /// "cuda 0 (NVIDIA H100 80GB HBM3 by CUDA 13.0, NVRTC 13.0), float32"
  std::string description() const {
    return "cuda " + std::to_string(settings_.device) + " (" + queue_.device_name() + " by " + queue_.provider().name +
           "), " + (rounds() ? "bfloat16" : "float32");
  }
  nvidia::queue& queue() noexcept { return queue_; }
  bool batch_invariant() const noexcept { return true; }
  /// A step of the tensor cores takes 16 tokens.
  bool gradients_in_order() const noexcept { return !uses_tensor_cores(); }
  /// The free bytes of the GPU's memory.
  std::optional<std::size_t> available_bytes() const { return queue_.available_bytes(); }
  /// The most bytes of it that were in use.
  std::optional<memory_peaks> most_memory() const { return queue_.most_memory(); }

  void* allocate(std::size_t bytes) { return queue_.allocate(bytes); }
  void release(void* p) noexcept { queue_.release(p); }
  void upload(void* device, const void* host, std::size_t bytes) { queue_.upload(device, host, bytes); }
  void download(void* host, const void* device, std::size_t bytes) { queue_.download(host, device, bytes); }
  void fill_zero(void* p, std::size_t bytes) { queue_.zero(p, bytes); }
  void wait() { queue_.wait(); }

  weight_format compute_format() const noexcept { return rounds() ? weight_format::bfloat16 : weight_format::float32; }
  /// Rows as they are; int8 in panels of 32 rows, which begin with their scales.
  std::size_t packed_bytes(weight_format format, extent_t o, extent_t i) const noexcept {
    const auto values = static_cast<std::size_t>(o * i);
    return format == weight_format::float32 ? 4 * values
           : is_bfloat16(format)            ? 2 * values
                                            : static_cast<std::size_t>((o + 31) / 32 * (128 + 32 * i));
  }
  /// What fits the cache of a large GPU.
  logit_limits logit_tile() const noexcept { return {std::size_t{32} << 20, 1024}; }
  /// For each key head rows of keys, then rows of values, in float.
  std::size_t kv_page_bytes(const attention_shape& s) const noexcept {
    return static_cast<std::size_t>(2 * kv_page * s.kv_heads * s.head_dim) * sizeof(float);
  }
  /// A trainer computes losses on the host: its report then has the bits of the CPU's, and log-probs are few bytes.
  bool losses_stay() const noexcept { return false; }
  bool reads_packed_rows() const noexcept { return true; }
  bool has_bfloat16_exact() const noexcept { return true; }
  extent_t attention_tile() const noexcept { return cpu_kernels::attention_keys; }

  void run(const op::pack_weight& o);
  void run(const op::linear_forward& o);
  void run(const op::linear_backward_input& o);
  void run(const op::linear_backward_weight& o);
  void run(const op::sum_rows& o);
  void run(const op::rms_norm_forward& o);
  void run(const op::add_rms_norm_forward& o);
  void run(const op::rms_norm_backward& o);
  void run(const op::rms_norm_backward_weight& o);
  void run(const op::rope& o);
  void run(const op::store_keys_values& o);
  void run(const op::attention_forward& o) { attend_forward(o, {}); }
  void run(const op::attention_backward& o) { attend_backward(o, {}); }
  void run(const op::attention_forward_part& o) { attend_forward(o.whole, o.parts); }
  void run(const op::attention_backward_part& o) { attend_backward(o.whole, o.parts); }
  void run(const op::swiglu_forward& o);
  void run(const op::swiglu_backward& o);
  void run(const op::gelu_forward& o);
  void run(const op::gelu_backward& o);
  void run(const op::gather_rows& o);
  void run(const op::gather_packed_rows& o);
  void run(const op::scatter_add_rows& o);
  void run(const op::copy_rows& o);
  void run(const op::scale_rows& o);
  void run(const op::dot_rows& o);
  void run(const op::add& o);
  void run(const op::scale& o);
  void run(const op::fill& o);
  void run(const op::log_prob_forward& o);
  void run(const op::log_prob_accumulate& o);
  void run(const op::log_prob_finish& o);
  void run(const op::log_prob_merge& o);
  void run(const op::log_prob_backward& o);
  /// On the GPU; with a limit (top_k, top_p, min_p) on the host, from logits that are downloaded.
  void run(const op::sample& o);
  double run(const op::sum_of_squares& o);
  void run(const op::block_sums_of_squares& o);
  void run(const op::adamw& o);

  /// Losses and advantages, see evaluate(device, ...) and compute_advantages(device, ...).
  void run(const op::run_program& o);
  void run(const op::live_slots& o);
  void run(const op::row_sums& o);
  void run(const op::to_indices& o);
  void run(const op::row_largest& o);
  void run(const op::add_next_slots& o);
  void run(const op::suffix_sums& o);
  void run(const op::live_first& o);
  void run(const op::pick_slots& o);

 private:
  bool rounds() const noexcept { return settings_.compute == compute::bfloat16; }
  bool uses_tensor_cores() const noexcept { return rounds() && queue_.capability() >= 80; }
  void multiply(const nvidia::arguments::product& p);
  /// The same of two arrays of floats, b [depth, columns], from the value in memory on if it accumulates.
  void multiply_in_one_chain(nvidia::arguments::product p);
  void attend_forward(const op::attention_forward& o, std::span<const attention_part> parts);
  void attend_backward(const op::attention_backward& o, std::span<const attention_part> parts);

  /// Device memory that a kernel uses; released in stream order.
  class scratch {
   public:
    scratch(nvidia::queue& q, std::size_t bytes) : queue_(q), memory_(q.allocate(bytes)) {}
    scratch(const scratch&) = delete;
    scratch& operator=(const scratch&) = delete;
    ~scratch() { queue_.release(memory_); }
    template <class T>
    T* as() const noexcept {
      return static_cast<T*>(memory_);
    }

   private:
    nvidia::queue& queue_;
    void* memory_;
  };
  /// Segments in device memory, which stay there until others are asked for: a pass has the same in each layer.
  struct segments_on_device {
    nvidia::arguments::segments_of_call call;
    extent_t count = 0;
    extent_t most_rows = 0;  ///< rows of the longest segment
    extent_t last_row = 0;   ///< one more than the last row of the call
    extent_t most_keys = 0;
  };
  /// Without `parts`, all keys of each segment.
  segments_on_device segments_of(std::span<const attention_segment> segments,
                                 std::span<const attention_segment_gradient> gradients,
                                 std::span<const attention_part> parts);

  cuda_settings settings_;
  nvidia::queue queue_;
  std::vector<nvidia::arguments::segment> segments_, segments_before_;
  std::optional<scratch> segment_memory_;
};

static_assert(device<cuda> && partial_attention<cuda> && packed_rows<cuda> && advantage_device<cuda>);

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
#include "rlcore/device/cuda/loss_operations.hpp"
#include "rlcore/device/cuda/operations.hpp"
#endif
