// Grouped-query attention on the NPU, over rows of activations or KV cache pages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "rlcore/device/npu/kernels/attention_composed.hpp"
#include "rlcore/device/npu/kernels/attention_fused.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

/// Uses the fused operators if they support the heads, else products and softmax.
class attention {
 public:
  /// device::store_keys_values. Throws std::invalid_argument for a segment without pages or without layer_pages.
  void store_keys_values(context& c, const attention_shape& s, std::span<const attention_segment> segments,
                         float* layer, const float* keys, const float* values, extent_t row);

  /// op::attention_forward; only the fused operators write statistics. Throws std::invalid_argument for 2^31
  /// elements or more.
  void forward(context& c, const attention_shape& s, std::span<const attention_segment> segments, const float* q,
               extent_t q_row, float* out, extent_t out_row, float* statistics);
  /// device::attention_backward. Throws std::invalid_argument for a segment in pages and for 2^31 elements or more.
  void backward(context& c, const attention_shape& s, std::span<const attention_segment> segments,
                std::span<const attention_segment_gradient> gradients, const float* q, extent_t q_row, const float* out,
                const float* dout, extent_t out_row, const float* statistics, float* dq);
  /// The range has been overwritten: recomputes row numbers that depend on it.
  void written(const memory_range& where) noexcept {
    stored_.written(where);
    read_.written(where);
  }

 private:
  static void put(context& c, tensor_ref to, const std::int32_t* rows, tensor_ref from) {
    c.run(c.op().aclnnIndexPutImpl, to, c.q.list({c.view(rows, {from.shape()[0]})}), from, false, false);
  }
  static void check(const attention_shape& s, const attention_run& run) {
    if (std::max(run.rows * s.heads, 2 * run.keys * s.kv_heads) * s.head_dim > most_elements)
      throw std::invalid_argument("rlcore: npu: attention of " + std::to_string(run.rows) + " rows and " +
                                  std::to_string(run.keys) + " keys is more than 2^31 elements; smaller micro-batches");
  }

  page_rows stored_{true}, read_{false};
  std::vector<attention_segment> cached_;
  fused_attention fused_;
};

}  // namespace ascend::kernels
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend::kernels {

RLCORE_INLINE void attention::store_keys_values(context& c, const attention_shape& s,
                                                std::span<const attention_segment> segments, float* layer,
                                                const float* keys, const float* values, extent_t row) {
  const extent_t w = s.kv_heads * s.head_dim;
  if (segments.empty()) return;
  // `keys` of a segment may not point to the layer yet
  cached_.assign(segments.begin(), segments.end());
  for (attention_segment& g : cached_) {
    if (g.pages == nullptr) throw std::invalid_argument("rlcore: npu: store_keys_values of a segment without pages");
    g.keys = layer;
  }
  const auto to = layer_rows(c, segments[0], layer, w);
  for_runs(c, cached_, [&](const attention_run& run) {
    const std::int32_t* rows = stored_(c, run);
    const extent_t from = run.first_row * row;
    put(c, to, rows, c.rows(keys + from, run.rows, w, row));
    put(c, to, rows + run.rows, c.rows(values + from, run.rows, w, row));
  });
}

RLCORE_INLINE void attention::forward(context& c, const attention_shape& s, std::span<const attention_segment> segments,
                                      const float* q, extent_t q_row, float* out, extent_t out_row, float* statistics) {
  for_runs(c, segments, [&](const attention_run& run) {
    check(s, run);
    if (!fused_attention::takes(c, s))
      composed_attention::forward(c, read_, s, run, q, q_row, out, out_row);
    else if (c.rounds())
      fused_.forward<bf16>(c, read_, s, run, q, q_row, out, out_row, statistics);
    else
      fused_.forward<float>(c, read_, s, run, q, q_row, out, out_row, statistics);
  });
}

RLCORE_INLINE void attention::backward(context& c, const attention_shape& s,
                                       std::span<const attention_segment> segments,
                                       std::span<const attention_segment_gradient> gradients, const float* q,
                                       extent_t q_row, const float* out, const float* dout, extent_t out_row,
                                       const float* statistics, float* dq) {
  for_runs(c, segments, [&](const attention_run& run) {
    check(s, run);
    if (run.segments[0].pages != nullptr)
      throw std::invalid_argument("rlcore: npu: attention_backward of a segment in pages; training reads rows");
    const auto run_gradients = gradients.subspan(run.first, run.segments.size());
    if (!fused_attention::takes(c, s))
      composed_attention::backward(c, read_, s, run, run_gradients, q, q_row, dout, out_row, dq);
    else if (c.rounds())
      fused_.backward<bf16>(c, read_, s, run, run_gradients, q, q_row, out, dout, out_row, statistics, dq);
    else
      fused_.backward<float>(c, read_, s, run, run_gradients, q, q_row, out, dout, out_row, statistics, dq);
  });
}

}  // namespace ascend::kernels
RLCORE_END
#endif
