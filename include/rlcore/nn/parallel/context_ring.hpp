// Ring attention: keys and values travel around a ring of ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/parallel/context_share.hpp"

RLCORE_BEGIN
namespace nn {

/// Rank r has run number r of each shared sequence. In the forward pass keys and values go to the previous rank. Rank r
/// reads runs 0, 1, .. and its own last, and carries the state of its softmax, not normalised, in float. In the
/// backward pass keys, values and their gradients, in float, go to the next rank. Rank r reads its own run, then r - 1,
/// .. 0, while the queries of ranks r, r + 1, .. read run r. Both orders are those of one rank, so all bits are those
/// of one rank.
template <class Device>
class context_ring {
 public:
  /// Allocates device memory for two sets of keys, values and gradients of the rank with most shared rows if the plan
  /// is a ring.
  explicit context_ring(context_share<Device>& share) : c_(share) {
    if (c_.plan.kind() != parallel::context_kind::ring) return;
    for (float** room : {&here_, &next_}) {  // keys, values and gradients of the rank with most rows
      const extent_t n = 2 * c_.most_shared() * c_.kv_width();
      *room = c_.space.template take<float>(n);
      c_.device.fill_zero(*room, static_cast<std::size_t>(n) * sizeof(float));
    }
  }

  /// Computes attention of this rank's own sequences, then of the runs of shared ones as they arrive; reads a.qkv,
  /// writes a.attended and a.statistics.
  void forward(const attention_activations& a) {
    if constexpr (partial_attention<Device>) {
      whole(a.qkv, nullptr);
      c_.device.run(op::attention_forward{.shape = c_.shape,
                                          .segments = c_.space.segments,
                                          .q = a.qkv,
                                          .q_row = c_.width(),
                                          .out = a.attended,
                                          .out_row = c_.q_width(),
                                          .statistics = a.statistics});
      if (c_.all_shared > 0) {
        const auto n = static_cast<std::size_t>(c_.most_shared() * c_.kv_width());
        c_.pack_keys(here_, a.qkv);
        for (int t = 1; t < c_.wire.size(); ++t) {
          c_.wire.shift(here_, next_, n, -1);
          std::swap(here_, next_);
          const int from = (c_.wire.rank() + t) % c_.wire.size();
          if (from < c_.wire.rank()) attend(a, from);
        }
        attend(a, c_.wire.rank());
      }
      clear();
    }
  }

  /// dqkv from the gradient of a.attended; the gradients of keys and values end at the rank that owns the keys.
  void backward(const attention_activations& a, const float* dattended, float* dqkv) {
    if constexpr (partial_attention<Device>) {
      whole(a.qkv, dqkv);
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
      if (c_.all_shared > 0) {
        const auto n = static_cast<std::size_t>(c_.most_shared() * c_.kv_width());
        differentiate(a, dattended, dqkv, c_.wire.rank(), nullptr);
        c_.pack_keys(here_, a.qkv);
        c_.pack_keys(here_ + n, dqkv);
        for (int t = 1; t < c_.wire.size(); ++t) {
          c_.wire.shift(here_, next_, 2 * n, 1);
          std::swap(here_, next_);
          if (t <= c_.wire.rank()) differentiate(a, dattended, dqkv, c_.wire.rank() - t, here_ + n);
        }
        c_.wire.shift(here_ + n, next_, n, 1);
        c_.unpack_keys(dqkv, next_);
      }
      clear();
    }
  }

 private:
  void clear() {
    c_.space.segments.clear(), c_.space.segment_gradients.clear();
    parts_.clear();
  }

  /// Adds the segments of the sequences that are not shared.
  void whole(const float* qkv, float* dqkv) {
    clear();
    for (const context_piece& p : c_.pieces)
      if (!c_.shared(p)) add(p, qkv, dqkv);
  }
  /// A segment whose keys lie in the rows of qkv.
  void add(const context_piece& p, const float* qkv, float* dqkv) {
    const extent_t place = c_.row(p) * c_.width() + c_.q_width(), half = c_.kv_width() / 2;
    c_.space.segments.push_back({qkv + place, qkv + place + half, c_.width(), c_.row(p), p.rows, p.first});
    if (dqkv) c_.space.segment_gradients.push_back({dqkv + place, dqkv + place + half});
  }
  /// Adds the segments of this rank's shared rows with the keys of rank `from`, which are in here_ or, for this rank,
  /// in qkv.
  void meet(const float* qkv, float* dqkv, int from, float* dkeys) {
    clear();
    const extent_t w = c_.kv_width(), half = w / 2;
    const auto theirs = c_.plan.pieces(from, c_.begin, c_.end);
    extent_t at = 0;
    std::size_t i = 0;
    for (const context_piece& k : theirs) {
      if (!c_.shared(k)) continue;
      while (i < c_.pieces.size() && c_.pieces[i].sequence < k.sequence) ++i;
      if (i < c_.pieces.size() && c_.pieces[i].sequence == k.sequence) {
        const context_piece& q = c_.pieces[i];
        const bool local = from == c_.wire.rank();
        if (local) {
          add(q, qkv, dqkv);
        } else {
          c_.space.segments.push_back({here_ + at, here_ + at + half, w, c_.row(q), q.rows, q.first});
          if (dkeys) c_.space.segment_gradients.push_back({dkeys + at, dkeys + at + half});
        }
        parts_.push_back({k.first, k.first + k.rows, false, local});
      }
      at += k.rows * w;
    }
  }
  void attend(const attention_activations& a, int from) {
    meet(a.qkv, nullptr, from, nullptr);
    for (attention_part& p : parts_) p.resume = p.begin > 0;
    c_.device.run(op::attention_forward_part{.whole = {.shape = c_.shape,
                                                       .segments = c_.space.segments,
                                                       .q = a.qkv,
                                                       .q_row = c_.width(),
                                                       .out = a.attended,
                                                       .out_row = c_.q_width(),
                                                       .statistics = a.statistics},
                                             .parts = parts_});
  }
  void differentiate(const attention_activations& a, const float* dattended, float* dqkv, int from, float* dkeys) {
    meet(a.qkv, dqkv, from, dkeys);
    for (attention_part& p : parts_) p.resume = from != c_.wire.rank();
    c_.device.run(op::attention_backward_part{.whole = {.shape = c_.shape,
                                                        .segments = c_.space.segments,
                                                        .gradients = c_.space.segment_gradients,
                                                        .q = a.qkv,
                                                        .q_row = c_.width(),
                                                        .out = a.attended,
                                                        .dout = dattended,
                                                        .out_row = c_.q_width(),
                                                        .statistics = a.statistics,
                                                        .dq = dqkv},
                                              .parts = parts_});
  }

  context_share<Device>& c_;
  std::vector<attention_part> parts_;
  float *here_ = nullptr, *next_ = nullptr;
};

}  // namespace nn
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {
extern template class context_ring<cpu>;
extern template class context_ring<any_device>;
}  // namespace nn
RLCORE_END
#endif
