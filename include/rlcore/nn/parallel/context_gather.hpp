// Context parallelism by all-gather of keys and values.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/parallel/context_share.hpp"

RLCORE_BEGIN
namespace nn {

/// Each rank gathers the keys and values of whole sequences and works on its own queries. Outputs and the gradients of
/// queries have the bits of one rank. The gradients of keys and values are summed over the ranks in float, in the order
/// of the ranks.
template <class Device>
class context_gather {
 public:
  /// Allocates device memory for the keys and values of all shared rows if the plan is gather_kv.
  explicit context_gather(context_share<Device>& share) : c_(share) {
    if (c_.plan.kind() != parallel::context_kind::gather_kv) return;
    local_ = c_.space.template take<float>(c_.own_shared() * c_.kv_width());
    travelling_ = c_.space.template take<float>(c_.all_shared * c_.kv_width());
    keys_ = c_.space.template take<float>(c_.all_shared * c_.kv_width());
  }
  void begin_backward() { dkeys_ = c_.space.template take<float>(c_.all_shared * c_.kv_width()); }

  /// Other rows lie in the qkv of the last forward(): backward() gathers their keys.
  void forget() { collected_ = {}; }

  /// Gathers the keys and values of shared sequences, then computes attention of this rank's queries; reads a.qkv,
  /// writes a.attended and a.statistics.
  void forward(const attention_activations& a) {
    collect(a.qkv);
    for (const int late : {0, 1}) segments(a.qkv, nullptr, late);
    c_.device.run(op::attention_forward{.shape = c_.shape,
                                        .segments = c_.space.segments,
                                        .q = a.qkv,
                                        .q_row = c_.width(),
                                        .out = a.attended,
                                        .out_row = c_.q_width(),
                                        .statistics = a.statistics});
    c_.space.segments.clear();
    collected_ = {a.qkv, c_.begin, c_.end};
  }

  /// dqkv from the gradient of a.attended. Gathers the keys again unless this layer's are still present.
  void backward(const attention_activations& a, const float* dattended, float* dqkv) {
    if (!(std::exchange(collected_, {}) == collection{a.qkv, c_.begin, c_.end})) collect(a.qkv);
    const extent_t w = c_.kv_width();
    c_.device.fill_zero(dkeys_, static_cast<std::size_t>(c_.all_shared * w) * sizeof(float));
    for (const int late : {0, 1}) {  // the two chunks of a sequence, which add to the same keys
      segments(a.qkv, dqkv, late);
      c_.device.run(op::attention_backward{.shape = c_.shape,
                                           .segments = c_.space.segments,
                                           .gradients = c_.space.segment_gradients,
                                           .q = a.qkv,
                                           .q_row = c_.width(),
                                           .out = a.attended,
                                           .dout = dattended,
                                           .out_row = c_.q_width(),
                                           .statistics = a.statistics,
                                           .dq = dqkv});
      c_.space.segments.clear(), c_.space.segment_gradients.clear();
    }
    if (c_.all_shared == 0) return;
    by_rank(true);
    c_.wire.reduce_scatter(travelling_, local_, c_.shared_rows, w);
    c_.unpack_keys(dqkv, local_);
  }

 private:
  /// Identifies the content of keys_.
  struct collection {
    const float* qkv = nullptr;
    std::size_t begin = 0, end = 0;
    friend bool operator==(const collection&, const collection&) = default;
  };

  void collect(const float* qkv) {
    if (c_.all_shared == 0) return;
    const extent_t w = c_.kv_width();
    c_.pack_keys(local_, qkv);
    c_.wire.all_gather(local_, travelling_, c_.shared_rows, w);
    by_rank(false);
  }
  /// Copies rows by rank into keys_, by sequence and position; with `back`, dkeys_ into rows by rank.
  void by_rank(bool back) {
    const extent_t w = c_.kv_width();
    float* at = travelling_;
    for (int k = 0; k < c_.plan.ranks(); ++k)
      for (const context_piece& p : c_.plan.pieces(k, c_.begin, c_.end)) {
        if (!c_.shared(p)) continue;
        const extent_t place = (c_.base[p.sequence] + p.first) * w;
        if (back)
          c_.device.run(
              op::copy_rows{.y = at, .y_row = w, .x = dkeys_ + place, .x_row = w, .count = p.rows, .width = w});
        else
          c_.device.run(
              op::copy_rows{.y = keys_ + place, .y_row = w, .x = at, .x_row = w, .count = p.rows, .width = w});
        at += p.rows * w;
      }
  }
  /// Adds the first (late = 0) or the second chunk of every sequence to the segments, and to their gradients if there
  /// is a dqkv.
  void segments(const float* qkv, float* dqkv, int late) {
    const extent_t w = c_.kv_width(), half = w / 2;
    for (std::size_t i = 0; i < c_.pieces.size(); ++i) {
      const context_piece& p = c_.pieces[i];
      if ((i > 0 && c_.pieces[i - 1].sequence == p.sequence) != (late == 1)) continue;
      const bool shared = c_.shared(p);
      const extent_t place = shared ? c_.base[p.sequence] * w : c_.row(p) * c_.width() + c_.q_width();
      const float* keys = (shared ? keys_ : qkv) + place;
      c_.space.segments.push_back({keys, keys + half, shared ? w : c_.width(), c_.row(p), p.rows, p.first});
      if (!dqkv) continue;
      float* dkeys = (shared ? dkeys_ : dqkv) + place;
      c_.space.segment_gradients.push_back({dkeys, dkeys + half});
    }
  }

  context_share<Device>& c_;
  float *local_ = nullptr, *travelling_ = nullptr, *keys_ = nullptr, *dkeys_ = nullptr;
  collection collected_;
};

}  // namespace nn
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {
extern template class context_gather<cpu>;
extern template class context_gather<any_device>;
}  // namespace nn
RLCORE_END
#endif
