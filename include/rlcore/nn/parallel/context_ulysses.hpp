// Ulysses context parallelism: all-to-all between rows and heads.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/parallel/context_gather.hpp"
#include "rlcore/nn/parallel/context_ring.hpp"
#include "rlcore/nn/parallel/context_share.hpp"

RLCORE_BEGIN
namespace nn {

/// The ranks of a group (context_plan::head_ranks) exchange rows for heads: each computes attention of its heads over
/// all rows of the group. With more ranks than key heads there are several groups, and ranks of the same heads share
/// the sequences as a ring, on devices without one by gathered keys. Bit-identical to one rank; with gathered keys but
/// for the gradients of keys and values.
template <class Device>
class context_ulysses {
 public:
  /// Allocates device memory for this rank's heads over all rows of its group if the plan is ulysses.
  explicit context_ulysses(context_share<Device>& share) : c_(share) {
    if (c_.plan.kind() != parallel::context_kind::ulysses) return;
    group_.emplace(c_);
    const context_share<Device>& group = group_->share;
    qkv_ = c_.space.template take<float>(group.rows * group.width());
    attended_ = c_.space.template take<float>(group.rows * group.q_width());
    statistics_ = c_.space.template take<float>(group.rows * 2 * group.shape.heads);
    travelling_ = c_.space.template take<float>(c_.rows * c_.width());
  }
  void begin_backward() {
    const context_share<Device>& group = group_->share;
    dattended_ = c_.space.template take<float>(group.rows * group.q_width());
    dqkv_ = c_.space.template take<float>(group.rows * group.width());
    if (!group_->rings()) group_->gather.begin_backward();
  }
  /// As context_pass::select(); does nothing unless the plan is ulysses.
  void select(std::size_t begin, std::size_t end) {
    if (group_) group_->share.select(begin, end);
  }

  /// All-to-all rows to heads, attention, all-to-all back; reads a.qkv, writes a.attended and a.statistics.
  void forward(const attention_activations& a) {
    const context_share<Device>& group = group_->share;
    to_heads(qkv_, a.qkv);
    if (group_->rings())
      group_->ring.forward(of_heads());
    else
      group_->gather.forward(of_heads());
    to_rows(a.attended, c_.q_width(), attended_, group.q_width());
    to_rows(a.statistics, 2 * c_.shape.heads, statistics_, 2 * group.shape.heads);
    exchanged_ = {a.qkv, c_.begin, c_.end};
  }

  /// dqkv from the gradient of a.attended. Exchanges qkv and the results again unless this layer's are still present.
  void backward(const attention_activations& a, const float* dattended, float* dqkv) {
    const context_share<Device>& group = group_->share;
    if (!(exchanged_ == exchange{a.qkv, c_.begin, c_.end})) {
      to_heads(qkv_, a.qkv);
      to_heads(attended_, a.attended, c_.q_width(), group.q_width());
      to_heads(statistics_, a.statistics, 2 * c_.shape.heads, 2 * group.shape.heads);
      group_->gather.forget();
    }
    exchanged_ = {};
    to_heads(dattended_, dattended, c_.q_width(), group.q_width());
    c_.device.fill_zero(dqkv_, static_cast<std::size_t>(group.rows * width()) * sizeof(float));
    if (group_->rings())
      group_->ring.backward(of_heads(), dattended_, dqkv_);
    else
      group_->gather.backward(of_heads(), dattended_, dqkv_);
    group_->wire.collect(dqkv_, travelling_, c_.rows, rows_of_group(), width());
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
  /// Attention of this rank's heads over the rows of its group, with the ranks of other groups that have the same
  /// heads.
  struct group_attention {
    context_wire<Device> wire;  ///< over the group
    context_share<Device> share;
    context_ring<Device> ring;
    context_gather<Device> gather;

    explicit group_attention(const context_share<Device>& c)
        : wire(c.device, *c.space.context.ranks, {c.wire.rank() / each(c) * each(c), 1, each(c)}),
          share(c.device, c.space, shape_of(c), c.plan.groups(),
                {c.wire.rank() % each(c), each(c), c.plan.groups().ranks()}),
          ring(share),
          gather(share) {}
    bool rings() const { return share.plan.kind() == parallel::context_kind::ring; }

   private:
    static int each(const context_share<Device>& c) { return c.plan.head_ranks(); }
    static attention_shape shape_of(const context_share<Device>& c) {
      attention_shape shape = c.shape;
      shape.heads /= each(c), shape.kv_heads /= each(c);
      return shape;
    }
  };

  /// Columns of qkv of this rank's heads.
  extent_t width() const { return group_->share.width(); }
  attention_activations of_heads() const {
    attention_activations a;
    a.qkv = qkv_, a.attended = attended_, a.statistics = statistics_;
    return a;
  }
  /// The selected rows of each rank of this rank's group.
  std::span<const extent_t> rows_of_group() const {
    const auto each = static_cast<std::size_t>(group_->wire.size()), rank = static_cast<std::size_t>(c_.wire.rank());
    return std::span<const extent_t>(c_.shared_rows).subspan(rank / each * each, each);
  }

  /// Calls f(this rank's rows as sent to or received from rank k of the group, k), with `columns` columns.
  template <class F>
  void for_ranks(F&& f, extent_t columns) {
    for (extent_t k = 0; k < group_->wire.size() && c_.rows > 0; ++k) f(travelling_ + k * c_.rows * columns, k);
  }
  /// Calls f(column in qkv, column among those of rank k, number) for queries, keys and values.
  template <class F>
  void for_projections(extent_t k, F&& f) {
    const extent_t q = group_->share.q_width(), kv = group_->share.kv_width() / 2;
    f(k * q, 0, q);
    f(c_.q_width() + k * kv, q, kv);
    f(c_.q_width() + c_.kv_width() / 2 + k * kv, q + kv, kv);
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
    group_->wire.scatter(travelling_, c_.rows, to, rows_of_group(), width());
  }
  /// `columns` of x [rows, row] for each rank of the group.
  void to_heads(float* to, const float* x, extent_t row, extent_t columns) {
    for_ranks(
        [&](float* packed, extent_t k) {
          c_.device.run(op::copy_rows{
              .y = packed, .y_row = columns, .x = x + k * columns, .x_row = row, .count = c_.rows, .width = columns});
        },
        columns);
    group_->wire.scatter(travelling_, c_.rows, to, rows_of_group(), columns);
  }
  void to_rows(float* x, extent_t row, const float* from, extent_t columns) {
    group_->wire.collect(from, travelling_, c_.rows, rows_of_group(), columns);
    for_ranks(
        [&](float* packed, extent_t k) {
          c_.device.run(op::copy_rows{
              .y = x + k * columns, .y_row = row, .x = packed, .x_row = columns, .count = c_.rows, .width = columns});
        },
        columns);
  }

  context_share<Device>& c_;
  std::optional<group_attention> group_;
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
