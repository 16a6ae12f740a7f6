// Flash attention over packed sequences by Ascend's fused operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "rlcore/device/npu/kernels/attention_run.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

/// FlashAttentionVarLenScore and its gradient over a whole run in the layout TND. T is the type of q, k, v and the
/// weights: bf16, or float for compute types of float.
///
/// The operators' statistics have the shape [rows, heads, 8], each number eight times, but within a sequence they are
/// ordered by head. They are kept in that order, so a backward needs whole segments of the forward.
class fused_attention {
 public:
  /// Whether the operators exist and support the heads: at most 256 heads of at most 768 elements.
  static bool takes(const context& c, const attention_shape& s) {
    return s.causal && c.op().aclnnFlashAttentionVarLenScore && c.op().aclnnFlashAttentionUnpaddingScoreGrad &&
           s.heads <= 256 && s.head_dim <= 768;
  }

  /// Writes out and the statistics [rows, heads, 2] of one run: the largest scaled score and the sum of exponentials.
  template <class T>
  void forward(context& c, page_rows& pages, const attention_shape& s, const attention_run& run, const float* q,
               extent_t q_row, float* out, extent_t out_row, float* statistics) {
    const extent_t t = run.rows, n = s.heads, d = s.head_dim, key_elements = run.keys * s.kv_heads * d;
    const auto queries = gather_rows_of<T>(c, q + run.first_row * q_row, t, n * d, q_row);
    const auto read = gather_keys_values<T>(c, pages, s, run);
    const auto top = c.take<float>(t * n * 8), total = c.take<float>(t * n * 8);
    const auto to = c.view(out + run.first_row * out_row, {t, n, d}, {out_row, d, 1});
    const auto result = c.take<T>(t * n * d);
    const auto attended = c.view(result.data(), {t, n, d});
    char layout[] = "TND";
    c.run(c.op().aclnnFlashAttentionVarLenScore, c.view(queries.data(), {t, n, d}),
          c.view(read.data(), {run.keys, s.kv_heads, d}), c.view(read.data() + key_elements, {run.keys, s.kv_heads, d}),
          nullptr, nullptr, nullptr, mask(c), nullptr, c.q.ints(std::span(run.query_ends)),
          c.q.ints(std::span(run.key_ends)), static_cast<double>(s.scale), 1.0, any, any, std::int64_t{n}, layout,
          std::int64_t{0}, causal_from_the_end, c.view(top.data(), {t, n, 8}), c.view(total.data(), {t, n, 8}),
          c.view(result.data(), {0}), attended);
    c.copy(to, attended);
    float* kept = statistics + run.first_row * n * 2;
    c.copy(c.view(kept, {t, n}, {2 * n, 2}), c.view(top.data(), {t, n}, {8 * n, 8}));
    c.copy(c.view(kept + 1, {t, n}, {2 * n, 2}), c.view(total.data(), {t, n}, {8 * n, 8}));
  }

  /// Overwrites dq and adds to the gradients of keys and values.
  template <class T>
  void backward(context& c, page_rows& pages, const attention_shape& s, const attention_run& run,
                std::span<const attention_segment_gradient> gradients, const float* q, extent_t q_row, const float* out,
                const float* dout, extent_t out_row, const float* statistics, float* dq) {
    const extent_t t = run.rows, n = s.heads, d = s.head_dim, w = s.kv_heads * d, key_elements = run.keys * w;
    const auto queries = gather_rows_of<T>(c, q + run.first_row * q_row, t, n * d, q_row);
    const auto attended = gather_rows_of<T>(c, out + run.first_row * out_row, t, n * d, out_row);
    const auto slopes = gather_rows_of<T>(c, dout + run.first_row * out_row, t, n * d, out_row);
    const auto read = gather_keys_values<T>(c, pages, s, run);
    const auto top = c.take<float>(t * n * 8), total = c.take<float>(t * n * 8);
    const float* kept = statistics + run.first_row * n * 2;
    c.copy(c.view(top.data(), {t, n, 8}), c.view(kept, {t, n, 1}, {2 * n, 2, 1}));
    c.copy(c.view(total.data(), {t, n, 8}), c.view(kept + 1, {t, n, 1}, {2 * n, 2, 1}));
    const auto dqueries = c.take<T>(t * n * d), dread = c.take<T>(2 * key_elements);
    char layout[] = "TND";
    c.run(c.op().aclnnFlashAttentionUnpaddingScoreGrad, c.view(queries.data(), {t, n, d}),
          c.view(read.data(), {run.keys, s.kv_heads, d}), c.view(read.data() + key_elements, {run.keys, s.kv_heads, d}),
          c.view(slopes.data(), {t, n, d}), nullptr, nullptr, nullptr, mask(c), c.view(top.data(), {t, n, 8}),
          c.view(total.data(), {t, n, 8}), nullptr, c.view(attended.data(), {t, n, d}), nullptr,
          c.q.ints(std::span(run.query_ends)), c.q.ints(std::span(run.key_ends)), static_cast<double>(s.scale), 1.0,
          any, any, std::int64_t{n}, layout, std::int64_t{0}, causal_from_the_end, c.view(dqueries.data(), {t, n, d}),
          c.view(dread.data(), {run.keys, s.kv_heads, d}),
          c.view(dread.data() + key_elements, {run.keys, s.kv_heads, d}), c.view(dread.data(), {0}));
    c.copy(c.rows(dq + run.first_row * q_row, t, n * d, q_row), c.rows(dqueries.data(), t, n * d));
    std::optional<scratch<float>> wide;
    const float* terms = nullptr;
    if constexpr (std::is_same_v<T, float>) {
      terms = dread.data();
    } else {
      wide = c.take<float>(2 * key_elements);
      c.cast(c.view(dread.data(), {2 * key_elements}), c.view(wide->data(), {2 * key_elements}));
      terms = wide->data();
    }
    for_stretches(
        run, [&](std::size_t i) { return std::pair{gradients[i].keys, gradients[i].values}; },
        [&](extent_t first, extent_t m, float* keys, float* values, extent_t row) {
          const auto k = c.rows(keys, m, w, row), v = c.rows(values, m, w, row);
          c.add(k, c.rows(terms + first * w, m, w), k);
          c.add(v, c.rows(terms + key_elements + first * w, m, w), v);
        });
  }

 private:
  static constexpr std::int64_t any = std::numeric_limits<std::int32_t>::max(), causal_from_the_end = 3;

  template <class T>
  static scratch<T> gather_rows_of(const context& c, const float* x, extent_t t, extent_t w, extent_t row) {
    scratch<T> to = c.take<T>(t * w);
    c.convert(c.rows(x, t, w, row), c.rows(to.data(), t, w));
    return to;
  }
  /// The mask of a square of 2048: everything above the diagonal. Operators cut it to any size.
  tensor_argument mask(context& c) {
    constexpr std::size_t side = 2048;
    if (!mask_) {
      std::vector<std::uint8_t> host(side * side);
      for (std::size_t i = 0; i < side; ++i)
        for (std::size_t j = i + 1; j < side; ++j) host[i * side + j] = 1;
      mask_ = c.take<bool>(side * side);
      c.q.upload(mask_->data(), host.data(), host.size());
    }
    return c.rows(mask_->data(), side, side);
  }

  std::optional<scratch<bool>> mask_;
};

}  // namespace ascend::kernels
RLCORE_END
