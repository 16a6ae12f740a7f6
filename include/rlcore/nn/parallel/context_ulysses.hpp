// Ulysses context parallelism: all-to-all between rows and heads.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rlcore/nn/model/activations.hpp"
#include "rlcore/nn/parallel/context_share.hpp"

RLCORE_BEGIN
namespace nn {

/// Every rank computes attention of its heads over all rows: bit-identical to one rank.
template <class Device>
class context_ulysses {
 public:
  /// Allocates device memory for this rank's heads over all rows if the plan is ulysses.
  explicit context_ulysses(context_share<Device>& share) : c_(share), part_(share.shape) {
    if (c_.plan.kind() != parallel::context_kind::ulysses) return;
    const auto p = static_cast<extent_t>(c_.wire.size());
    part_.heads /= p, part_.kv_heads /= p;
    qkv_ = c_.space.template take<float>(c_.all_shared * width());
    attended_ = c_.space.template take<float>(c_.all_shared * q_width());
    statistics_ = c_.space.template take<float>(c_.all_shared * 2 * part_.heads);
    travelling_ = c_.space.template take<float>(c_.rows * c_.width());
  }
  void begin_backward() {
    dattended_ = c_.space.template take<float>(c_.all_shared * q_width());
    dqkv_ = c_.space.template take<float>(c_.all_shared * width());
  }

  /// All-to-all rows to heads, attention, all-to-all back; reads a.qkv, writes a.attended and a.statistics.
  void forward(const attention_activations& a) {
    to_heads(qkv_, a.qkv);
    segments();
    c_.device.run(op::attention_forward{.shape = part_,
                                        .segments = c_.space.segments,
                                        .q = qkv_,
                                        .q_row = width(),
                                        .out = attended_,
                                        .out_row = q_width(),
                                        .statistics = statistics_});
    clear();
    to_rows(a.attended, c_.q_width(), attended_, q_width());
    to_rows(a.statistics, 2 * c_.shape.heads, statistics_, 2 * part_.heads);
    exchanged_ = {a.qkv, c_.begin, c_.end};
  }

  /// dqkv from the gradient of a.attended. Exchanges qkv and the results again unless this layer's are still present.
  void backward(const attention_activations& a, const float* dattended, float* dqkv) {
    if (!(exchanged_ == exchange{a.qkv, c_.begin, c_.end})) {
      to_heads(qkv_, a.qkv);
      to_heads(attended_, a.attended, c_.q_width(), q_width());
      to_heads(statistics_, a.statistics, 2 * c_.shape.heads, 2 * part_.heads);
    }
    exchanged_ = {};
    to_heads(dattended_, dattended, c_.q_width(), q_width());
    c_.device.fill_zero(dqkv_, static_cast<std::size_t>(c_.all_shared * width()) * sizeof(float));
    segments();
    for (const attention_segment& s : c_.space.segments) {
      float* keys = dqkv_ + s.first_row * width() + q_width();
      c_.space.segment_gradients.push_back({keys, keys + kv_width()});
    }
    c_.device.run(op::attention_backward{.shape = part_,
                                         .segments = c_.space.segments,
                                         .gradients = c_.space.segment_gradients,
                                         .q = qkv_,
                                         .q_row = width(),
                                         .out = attended_,
                                         .dout = dattended_,
                                         .out_row = q_width(),
                                         .statistics = statistics_,
                                         .dq = dqkv_});
    clear();
    c_.wire.collect(dqkv_, travelling_, c_.rows, c_.shared_rows, width());
    for_ranks(
        [&](float* packed, extent_t k) {
          for_projections(k, [&](extent_t from, extent_t to, extent_t count) {
            c_.device.run(op::copy_rows{.y = dqkv + from,
                                        .y_row = c_.width(),
                                        .x = packed + to,
                                        .x_row = width(),
                                        .count = c_.rows,
                                        .width = count});
          });
        },
        width());
  }

 private:
  /// Identifies the content of qkv_, attended_ and statistics_.
  struct exchange {
    const float* qkv = nullptr;
    std::size_t begin = 0, end = 0;
    friend bool operator==(const exchange&, const exchange&) = default;
  };

  // Of this rank's heads.
  extent_t q_width() const { return part_.heads * part_.head_dim; }
  extent_t kv_width() const { return part_.kv_heads * part_.head_dim; }
  extent_t width() const { return q_width() + 2 * kv_width(); }
  /// The selected sequences; their rows are contiguous.
  void segments() {
    clear();
    for (std::size_t s = c_.begin; s < c_.end; ++s) {
      const extent_t first = c_.base[s], rows = c_.base[s + 1] - first;
      if (rows == 0) continue;
      const float* keys = qkv_ + first * width() + q_width();
      c_.space.segments.push_back({keys, keys + kv_width(), width(), first, rows, 0});
    }
  }
  void clear() { c_.space.segments.clear(), c_.space.segment_gradients.clear(); }

  /// Calls f(this rank's rows as sent to or received from rank k, k), with `columns` columns.
  template <class F>
  void for_ranks(F&& f, extent_t columns) {
    for (extent_t k = 0; k < c_.wire.size() && c_.rows > 0; ++k) f(travelling_ + k * c_.rows * columns, k);
  }
  /// Calls f(column in qkv, column among those of rank k, number) for queries, keys and values.
  template <class F>
  void for_projections(extent_t k, F&& f) {
    f(k * q_width(), 0, q_width());
    f(c_.q_width() + k * kv_width(), q_width(), kv_width());
    f(c_.q_width() + c_.kv_width() / 2 + k * kv_width(), q_width() + kv_width(), kv_width());
  }
  void to_heads(float* to, const float* qkv) {
    for_ranks(
        [&](float* packed, extent_t k) {
          for_projections(k, [&](extent_t from, extent_t at, extent_t count) {
            c_.device.run(op::copy_rows{.y = packed + at,
                                        .y_row = width(),
                                        .x = qkv + from,
                                        .x_row = c_.width(),
                                        .count = c_.rows,
                                        .width = count});
          });
        },
        width());
    c_.wire.scatter(travelling_, c_.rows, to, c_.shared_rows, width());
  }
  /// `columns` of x [rows, row] for each rank.
  void to_heads(float* to, const float* x, extent_t row, extent_t columns) {
    for_ranks(
        [&](float* packed, extent_t k) {
          c_.device.run(op::copy_rows{
              .y = packed, .y_row = columns, .x = x + k * columns, .x_row = row, .count = c_.rows, .width = columns});
        },
        columns);
    c_.wire.scatter(travelling_, c_.rows, to, c_.shared_rows, columns);
  }
  void to_rows(float* x, extent_t row, const float* from, extent_t columns) {
    c_.wire.collect(from, travelling_, c_.rows, c_.shared_rows, columns);
    for_ranks(
        [&](float* packed, extent_t k) {
          c_.device.run(op::copy_rows{
              .y = x + k * columns, .y_row = row, .x = packed, .x_row = columns, .count = c_.rows, .width = columns});
        },
        columns);
  }

  context_share<Device>& c_;
  attention_shape part_;
  exchange exchanged_;
  float *qkv_ = nullptr, *attended_ = nullptr, *statistics_ = nullptr, *travelling_ = nullptr;
  float *dqkv_ = nullptr, *dattended_ = nullptr;
};

}  // namespace nn
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {
extern template class context_ulysses<cpu>;
extern template class context_ulysses<any_device>;
}  // namespace nn
RLCORE_END
#endif
