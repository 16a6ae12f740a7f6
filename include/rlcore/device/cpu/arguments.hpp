// What the CPU kernels are told, the same for every instruction set, and the table that dispatch fills.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN

namespace cpu_kernels {

/// Depth and rows of the blocks in which a product is computed; no result depends on them.
inline constexpr extent_t gemm_depth_block = 512, gemm_row_block = 240;
/// Floats of scratch that one thread needs for a product: a block of A and one panel (at most 32 columns) of B.
inline constexpr extent_t gemm_scratch = gemm_depth_block * (gemm_row_block + 32);
/// Keys between two rescalings of attention's running softmax; two pages.
inline constexpr extent_t attention_keys = 2 * kv_page;

/// C[i, j] = (accumulate ? C[i, j] : 0) + sum over p < depth of a[i * a_row + p * a_step] * B[p, j] (+ bias[j]), where
/// B[p, j] is b[p * b_row + j], or b[j * b_row + p] if b_transposed.
struct gemm_arguments {
  float* c;
  extent_t c_row;
  const float* a;
  extent_t a_row, a_step;
  const float* b;
  extent_t b_row;
  bool b_transposed;
  const float* bias;
  bool accumulate;
  extent_t rows, columns, depth;
};

/// The scalars of one AdamW step, see cpu::adamw.
struct adamw_arguments {
  float decay, one_minus_beta1, beta2, one_minus_beta2, root_correction2, eps, step_size, gradient_scale;
};

/// Floats of scratch of one thread for attention, forward or backward, whatever the lengths.
constexpr extent_t attention_scratch(const attention_shape& s) {
  constexpr extent_t rows = 48;  // of a block, at most
  const extent_t head_dim = (s.head_dim + 15) / 16 * 16;
  return rows * (5 * head_dim + 2 * (attention_keys + 8) + 16 + 8);
}

/// One instruction set's kernels; each works on one thread.
struct table {
  const char* name;
  extent_t columns;  ///< of a panel: threads split columns at multiples of it
  void (*gemm)(const gemm_arguments&, float*);
  void (*rms_norm_forward)(const norm_arguments&, float*, extent_t, const float*, float*, extent_t, extent_t);
  void (*rms_norm_backward)(const norm_arguments&, float*, const float*, extent_t, const float*, const float*, bool,
                            extent_t, extent_t);
  void (*rms_norm_weight_backward)(const norm_arguments&, float*, const float*, extent_t, const float*, const float*,
                                   extent_t, extent_t, extent_t);
  void (*rope)(float*, extent_t, extent_t, extent_t, const std::int32_t*, const float*, const float*, bool, extent_t,
               extent_t);
  void (*store_keys_values)(const attention_shape&, const attention_segment&, extent_t, float*, const float*,
                            const float*, extent_t);
  void (*attention_forward)(const attention_shape&, const attention_segment&, extent_t, extent_t, extent_t,
                            const float*, extent_t, float*, extent_t, float*, float*);
  void (*attention_backward)(const attention_shape&, const attention_segment&, extent_t, const float*, extent_t,
                             const float*, const float*, extent_t, const float*, float*, float*, float*, float*);
  void (*swiglu_forward)(float*, const float*, extent_t, extent_t, extent_t);
  void (*swiglu_backward)(float*, const float*, const float*, extent_t, extent_t, extent_t);
  void (*gather_rows)(float*, const float*, const std::int32_t*, extent_t, extent_t, extent_t);
  void (*scatter_add_rows)(float*, const float*, const std::int32_t*, extent_t, extent_t, extent_t, extent_t);
  void (*sum_rows)(float*, const float*, extent_t, extent_t, extent_t, extent_t);
  void (*add)(float*, const float*, const float*, extent_t);
  void (*scale)(float*, float, extent_t);
  double (*sum_of_squares)(const float*, extent_t);
  void (*log_prob_forward)(const float*, extent_t, std::int32_t, float, float*, float*, float*);
  void (*log_prob_backward)(float*, extent_t, std::int32_t, float, float, float, float, const float*);
  void (*adamw)(const adamw_arguments&, float*, float*, float*, const float*, extent_t);
  void (*exp)(float*, const float*, extent_t);
};

}  // namespace cpu_kernels

RLCORE_END
