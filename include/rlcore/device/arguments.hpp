// Argument types that several kernels of a device share: rows of norms, heads and segments of attention, formats, the
// data type of matrix products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "rlcore/core/abi.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
/// Rows of a norm: row (t, g) is x + t * row + g * width, for g < groups. Statistic (t, g) is rstd[t * groups + g].
struct norm_arguments {
  extent_t row = 0, groups = 1, width = 0;
  const float* weight = nullptr;  ///< [width]
  double eps = 1e-6;
};

/// Heads of grouped-query attention: `heads` query heads share `kv_heads` key heads, `scale` multiplies q . k. Without
/// `causal` every row of a segment attends to all of the segment's keys (the patches of an image).
struct attention_shape {
  extent_t heads = 1, kv_heads = 1, head_dim = 0;
  float scale = 1;
  bool causal = true;
};

/// Positions per page of the KV cache.
inline constexpr extent_t kv_page = 32;
/// Pages that hold n positions.
constexpr extent_t kv_pages(extent_t n) { return (n + kv_page - 1) / kv_page; }

/// Consecutive query rows of one sequence. Row first_row + i stands at position first_position + i and attends to the
/// keys of positions 0 .. first_position + i, or, if not causal, 0 .. first_position + rows - 1. They lie in rows (key
/// head h of position p is keys + p * key_row + h * head_dim, values likewise) or, if `pages` is not null, in a cache:
/// `keys` is the layer's first page, and page pages[n], below layer_pages, holds the positions kv_page * n and
/// following, in the device's own order and format; `values` and `key_row` are then ignored.
struct attention_segment {
  const float* keys = nullptr;
  const float* values = nullptr;
  extent_t key_row = 0, first_row = 0, rows = 0, first_position = 0;
  const std::int32_t* pages = nullptr;
  extent_t layer_pages = 0;  ///< pages per layer in the cache
};

/// The memory that accumulates the gradients of one segment's keys and values, in the layout of the keys and values.
struct attention_segment_gradient {
  float* keys = nullptr;
  float* values = nullptr;
};

/// Keys of a segment at positions [begin, end); attention_segment::keys points to the first. `begin` is a multiple of
/// the device's attention_tile(), and so is `end` unless no query of the segment is at position `end` or beyond. With
/// `resume` the call continues from the results of earlier parts; without `finish` the results are left for a later
/// part.
struct attention_part {
  extent_t begin = 0, end = std::numeric_limits<extent_t>::max();
  bool resume = false, finish = true;
};

/// The format of a device's packed weights. Training uses the format of the device's compute type; int8 (one scale per
/// output) is for generation only. bfloat16_exact: weights that are bfloat16 values, which products take as floats, as
/// they are; the bits of float32 in half the memory.
enum class weight_format : unsigned char { float32, bfloat16, int8, bfloat16_exact };

/// Is it one of those that store bfloat16 values?
constexpr bool is_bfloat16(weight_format f) noexcept {
  return f == weight_format::bfloat16 || f == weight_format::bfloat16_exact;
}

/// Which rows of an array a kernel writes: the k-th is number data[k] (device memory), one of the first `rows`; without
/// numbers it is row k. The uploader of the numbers knows how many rows they refer to, so devices do not read them
/// back.
struct row_ids {
  const std::int32_t* data = nullptr;
  extent_t rows = 0;

  constexpr row_ids() = default;
  /// Rows 0, 1, 2, ...
  constexpr row_ids(std::nullptr_t) noexcept {}
  /// The numbers at `ids`, each from 0 to n - 1. Operators may copy the n rows, so keep n small.
  constexpr row_ids(const std::int32_t* ids, extent_t n) noexcept : data(ids), rows(n) {}
};

/// The state of a row's softmax(logits / temperature) after some of its columns: the sums in a device-specific form,
/// relative to the largest logit so far, and the target's logit once its column has been processed.
struct log_prob_state {
  double total = 0, weighted = 0;
  float top = 0, target = 0;
};

/// The most bytes of device memory that a process had in use, and that its allocator held for it, so far.
struct memory_peaks {
  std::size_t allocated = 0, reserved = 0;
};

/// The most logits that a model computes before it consumes them, so that they stay in a cache of the device.
struct logit_limits {
  std::size_t bytes = std::size_t{8} << 20;
  extent_t rows = 1024;
};

/// The settings of sampling. A token is drawn from softmax(logits / temperature), without tokens less likely than min_p
/// times the most likely one, cut to the top_k most likely (<= 0: all), then to the smallest set of these whose
/// probability reaches top_p, renormalised. Temperature 0 takes the most likely token.
struct sampling_arguments {
  float temperature = 1;
  extent_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
};

/// One AdamW step as torch.optim.AdamW computes it (decoupled decay, Loshchilov & Hutter 2019): with g' =
/// gradient_scale g, w *= 1 - lr decay; m += (1 - beta1)(g' - m); v = beta2 v + (1 - beta2) g'^2; w -= lr / (1 -
/// beta1^step) m / (sqrt(v) / sqrt(1 - beta2^step) + eps). step counts from 1.
struct adamw_step {
  double lr = 1e-6, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  std::int64_t step = 1;
  float gradient_scale = 1;
};

/// A mask in the memory of a device, without gaps: `size` elements of 1, 4 or 8 bytes, integers or floats.
struct mask_elements {
  const void* data = nullptr;  ///< null: every slot counts
  extent_t size = 0;
  std::uint8_t bytes = 0;
  bool floating = false;
};

/// The type of the inputs of matrix products; sums, results and master weights are float in all cases. hf32 is Ascend's
/// float with 11 fraction bits, which CPUs do not support.
enum class compute : unsigned char { float32, bfloat16, hf32 };
RLCORE_END
