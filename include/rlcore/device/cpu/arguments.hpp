// What the CPU kernels of every instruction set share: arguments, the table for dispatch, packed panels and log-prob
// states.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/elementary.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN

namespace cpu_kernels {

/// Columns of a panel of packed weights, in every instruction set.
inline constexpr extent_t panel_width = 32;
/// Steps of the contracted dimension that a forward product sums on their own, before it adds them to the sum of the
/// steps before: one chain over thousands of inputs would have twice the rounding error, and more.
inline constexpr extent_t gemm_sum_block = 256;
/// Depth of a block of a product, a multiple of gemm_sum_block, and floats of its block of A; no result depends on
/// them.
inline constexpr extent_t gemm_depth_block = 1024, gemm_a_floats = 192 * gemm_depth_block;
/// Floats of scratch that one thread needs for a product: a block of A (and room to write beyond its end) and one panel
/// of B.
inline constexpr extent_t gemm_scratch = gemm_a_floats + 64 + gemm_depth_block * panel_width;
/// Lanes of the summation order, in every instruction set.
inline constexpr int order_lanes = 16;
/// Keys between two rescalings of attention's running softmax; two pages.
inline constexpr extent_t attention_keys = 2 * kv_page;
/// Floats of a page of one layer of the KV cache: for each key head keys [head_dim, 32], then values [32, head_dim].
constexpr extent_t page_floats(const attention_shape& s) { return 2 * kv_page * s.kv_heads * s.head_dim; }
/// Logits per summation block, for log-probs and for sampling.
inline constexpr extent_t log_prob_block = 1024;

/// Storage of B: panels as cpu::pack_weight writes them, panel_bytes apart, or rows of floats, b_row apart.
enum class operand : unsigned char { float_panels, bf16_panels, int8_panels, rows };

/// C[i, j] = (accumulate ? C[i, j] : 0) + sum over p < depth of a[i * a_row + p * a_step] * B[p, j] (+ bias[j]), in
/// blocks of gemm_sum_block; `chain`: as one chain from C[i, j] on, so that calls for parts of the depth give the bits
/// of one call. With `round`, A and the rows of B are rounded to bf16 first.
struct gemm_arguments {
  float* c;
  extent_t c_row;
  const float* a;
  extent_t a_row, a_step;
  const std::byte* b;
  operand kind;
  extent_t b_row, panel_bytes;
  const float* bias;
  bool accumulate, round, chain;
  extent_t rows, columns, depth;
};

/// The scalars of one AdamW step, see adamw_step.
struct adamw_arguments {
  float decay, one_minus_beta1, beta2, one_minus_beta2, root_correction2, eps, step_size, gradient_scale;
};

/// The scalars of a step.
inline adamw_arguments arguments_of(const adamw_step& s) {
  const double correction1 = 1 - elementary::pow(s.beta1, static_cast<double>(s.step));
  const double correction2 = 1 - elementary::pow(s.beta2, static_cast<double>(s.step));
  return {static_cast<float>(1 - s.lr * s.weight_decay),
          static_cast<float>(1 - s.beta1),
          static_cast<float>(s.beta2),
          static_cast<float>(1 - s.beta2),
          static_cast<float>(std::sqrt(correction2)),
          static_cast<float>(s.eps),
          static_cast<float>(s.lr / correction1),
          s.gradient_scale};
}

/// Blocks of at most 48 rows that share a tile of keys.
inline constexpr extent_t attention_blocks = 4;
/// Maximum rows of one (segment, key head) per thread: enough to amortize reading the keys again.
inline constexpr extent_t attention_most_rows = 8 * 48;
/// Floats of scratch per thread for attention, forward or backward, for any lengths.
constexpr extent_t attention_scratch(const attention_shape& s) {
  constexpr extent_t rows = 48;
  const extent_t width = (s.head_dim + 15) / 16 * 16;
  return attention_blocks * rows * (5 * width + 3) + 2 * attention_keys * rows + rows + 4 * attention_keys * width;
}

/// One instruction set's kernels; each works on one thread.
struct table {
  const char* name;
  void (*gemm)(const gemm_arguments&, extent_t, extent_t, extent_t, extent_t, float*);
  void (*pack_weight)(std::byte*, weight_format, const float*, extent_t, extent_t, extent_t, float*);
  void (*pack_panel)(float*, const float*, extent_t, extent_t, extent_t, bool);
  void (*rms_norm_forward)(const norm_arguments&, float*, extent_t, const float*, float*, extent_t, extent_t);
  void (*add_rms_norm_forward)(const norm_arguments&, float*, const float*, const float*, float*, float*, extent_t,
                               extent_t);
  void (*rms_norm_backward)(const norm_arguments&, float*, const float*, extent_t, const float*, const float*, bool,
                            extent_t, extent_t);
  void (*rms_norm_weight_backward)(const norm_arguments&, float*, const float*, extent_t, const float*, const float*,
                                   extent_t, extent_t, extent_t);
  void (*rope)(float*, extent_t, extent_t, extent_t, const std::int32_t*, const float*, const float*, bool, extent_t,
               extent_t);
  void (*store_keys_values)(const attention_shape&, const attention_segment&, extent_t, float*, const float*,
                            const float*, extent_t);
  void (*attention_forward)(const attention_shape&, const attention_segment&, const attention_part&, extent_t, extent_t,
                            extent_t, const float*, extent_t, float*, extent_t, float*, float*);
  void (*attention_backward)(const attention_shape&, const attention_segment&, const attention_part&, extent_t,
                             const float*, extent_t, const float*, const float*, extent_t, const float*, float*, float*,
                             float*, float*);
  void (*swiglu_forward)(float*, const float*, extent_t, extent_t, extent_t);
  void (*swiglu_backward)(float*, const float*, const float*, extent_t, extent_t, extent_t);
  void (*gelu_forward)(float*, const float*, extent_t, extent_t);
  void (*gelu_backward)(float*, const float*, const float*, extent_t, extent_t);
  void (*gather_rows)(float*, const float*, const std::int32_t*, extent_t, extent_t, extent_t);
  void (*scatter_add_rows)(float*, const float*, const std::int32_t*, extent_t, extent_t, extent_t, extent_t);
  void (*sum_rows)(float*, const float*, extent_t, extent_t, extent_t, extent_t);
  void (*scale_rows)(float*, const float*, const float*, extent_t, extent_t, extent_t);
  void (*dot_rows)(float*, const float*, const float*, extent_t, extent_t, extent_t);
  void (*add)(float*, const float*, const float*, extent_t);
  void (*scale)(float*, float, extent_t);
  double (*sum_of_squares)(const float*, extent_t);
  void (*log_prob_accumulate)(log_prob_state&, const float*, extent_t, extent_t, std::int32_t, float);
  void (*log_prob_finish)(const log_prob_state&, float, float*, float*, float*);
  void (*log_prob_backward)(float*, extent_t, extent_t, std::int32_t, float, float, float, float, const float*);
  void (*sample_blocks)(const float*, extent_t, float, extent_t, extent_t, float*, float*);
  void (*sample_weights)(const float*, extent_t, float, float, float*, float*);
  void (*adamw)(const adamw_arguments&, float*, float*, float*, const float*, extent_t);
  void (*exp)(float*, const float*, extent_t);
};

/// Bytes of a panel of weights with `inputs` inputs.
constexpr extent_t panel_bytes(weight_format format, extent_t inputs) noexcept {
  return panel_width * (format == weight_format::float32 ? 4 * inputs
                        : is_bfloat16(format)            ? 2 * (inputs + inputs % 2)
                                                         : inputs + 4);
}

/// The values of output `row` of a packed weight, float32 or bf16.
inline void read_packed_row(float* y, const std::byte* packed, weight_format format, extent_t row, extent_t inputs) {
  constexpr extent_t word = sizeof(std::uint32_t), next = panel_width * word;
  const std::byte* at = packed + row / panel_width * panel_bytes(format, inputs) + row % panel_width * word;
  const bool pairs = is_bfloat16(format);  // the earlier input in the upper half of a word
  for (extent_t p = 0; p < inputs; p += pairs ? 2 : 1, at += next) {
    std::uint32_t bits;
    std::memcpy(&bits, at, sizeof bits);
    y[p] = std::bit_cast<float>(pairs ? bits & 0xffff0000u : bits);
    if (pairs && p + 1 < inputs) y[p + 1] = std::bit_cast<float>(bits << 16);
  }
}

/// The state of both parts together, relative to the larger top, in powers of 2 as in log_prob.inc. The target logit is
/// in one part and 0 in the second.
inline log_prob_state merged(const log_prob_state& a, const log_prob_state& b) {
  log_prob_state both;
  both.top = std::max(a.top, b.top);
  both.target = a.target + b.target;
  for (const log_prob_state* s : {&a, &b}) {
    if (s->total == 0) continue;  // only excluded tokens
    const double by = static_cast<double>(s->top) - static_cast<double>(both.top), scale = elementary::exp2(by);
    both.weighted += scale * (s->weighted + by * s->total);
    both.total += scale * s->total;
  }
  return both;
}

}  // namespace cpu_kernels

RLCORE_END
