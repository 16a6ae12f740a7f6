// Pre-norm transformer layer: h = x + attention(norm(x)), y = h + mlp(norm(h)).
#pragma once

#include <cstdint>
#include <span>

#include "rlcore/core/timeline.hpp"
#include "rlcore/nn/attention/attention.hpp"
#include "rlcore/nn/layer/linear.hpp"
#include "rlcore/nn/layer/norm.hpp"
#include "rlcore/nn/model/pass.hpp"
#include "rlcore/nn/moe/moe.hpp"
#include "rlcore/nn/parallel/tensor_pass.hpp"

RLCORE_BEGIN
namespace nn {

/// A pre-norm layer: h = x + attention(norm(x)), y = h + f(norm(h)); f is the MLP or the mixture of experts.
struct block {
  norm input_norm, post_attention_norm;
  nn::attention self_attention;
  nn::mlp feed_forward;
  nn::moe experts;  ///< if present, replaces feed_forward

  extent_t hidden() const { return input_norm.width; }

  /// For t rows, all on this rank.
  template <class Device>
  block_activations take(workspace<Device>& space, extent_t t) const {
    return take(space, t, t);
  }
  /// For t rows; this rank keeps `local_rows` between layers.
  template <class Device>
  block_activations take(workspace<Device>& space, extent_t t, extent_t local_rows) const {
    block_activations a;
    a.normed = space.template take<float>(local_rows * hidden());
    a.rstd = space.template take<float>(local_rows);
    a.attended = self_attention.take(space, t);
    a.middle = space.template take<float>(local_rows * hidden());
    a.post_attention_normed = space.template take<float>(local_rows * hidden());
    a.middle_rstd = space.template take<float>(local_rows);
    if (experts)
      a.routed = experts.take(space, t);
    else
      a.mixed = feed_forward.take(space, t);
    return a;
  }
  /// Device memory for the backward of t tokens: dqkv [t, width of qkv] and the gradient of the attended values [t,
  /// q_width].
  template <class Device>
  block_scratch take_scratch(workspace<Device>& space, extent_t t) const {
    return {space.template take<float>(t * self_attention.width()),
            space.template take<float>(t * self_attention.q_width())};
  }

  /// y [own rows, hidden] from x; y may not alias x. `place` as in attention. With sequence parallelism the ranks
  /// gather and scatter the rows between norms and linear layers (tensor_pass.hpp). Every rank of a tensor parallel
  /// group computes all experts, or gathers what others computed (partition::experts_by_tensor).
  template <class Device, class Place>
  void forward(const pass<Device>& p, const block_activations& a, float* y, const float* x, Place&& place) const {
    const timeline::span traced("layer forward", "tokens", p.tokens);
    const extent_t t = own_rows(p), h = hidden();
    float *const whole = p.share ? p.share->whole : nullptr, *const part = p.share ? p.share->other : nullptr;
    input_norm.forward(p.device, p.weights, a.normed, h, x, h, a.rstd, t);
    self_attention.forward(p, a.attended, partial_rows(p, y, part), all_rows(p, a.normed, whole, h), place);
    sum_rows_over_ranks(p, y, part, h);
    post_attention_norm.forward_of_sum(p.device, p.weights, a.middle, x, y, a.post_attention_normed, a.middle_rstd, t);
    const float* rows = all_rows(p, a.post_attention_normed, whole, h);
    if (experts) {
      experts.forward(p, a.routed, partial_rows(p, y, part), rows);
      keep_own_rows(p, y, part, h);
    } else {
      feed_forward.forward(p, a.mixed, partial_rows(p, y, part), rows);
      sum_rows_over_ranks(p, y, part, h);
    }
    p.device.run(op::add{.y = y, .a = a.middle, .b = y, .n = t * h});
  }

  /// out [n, hidden]: only the rows `index` of forward()'s output. `index` is device memory with n entries, at most the
  /// rows of `a`. The feed-forward layer computes only these rows, p.choices are theirs; `a` cannot be used for
  /// a backward.
  template <class Device, class Place>
  void forward_rows(const pass<Device>& p, const block_activations& a, float* out, const float* x, Place&& place,
                    const std::int32_t* index, extent_t n) const {
    const timeline::span traced("layer forward", "tokens", p.tokens);
    const extent_t t = p.tokens, h = hidden();
    input_norm.forward(p.device, p.weights, a.normed, h, x, h, a.rstd, t);
    self_attention.forward(p, a.attended, a.post_attention_normed, a.normed, place);
    sum_over_ranks(p, a.post_attention_normed, t * h);
    p.device.run(op::add{.y = a.middle, .a = x, .b = a.post_attention_normed, .n = t * h});
    p.device.run(op::gather_rows{.y = out, .x = a.middle, .x_rows = t, .ids = index, .count = n, .width = h});
    post_attention_norm.forward(p.device, p.weights, a.post_attention_normed, h, out, h, a.middle_rstd, n);
    pass<Device> part = p;
    part.tokens = n;
    if (experts) {
      experts.forward(part, a.routed, a.normed, a.post_attention_normed);
    } else {
      feed_forward.forward(part, a.mixed, a.normed, a.post_attention_normed);
      sum_over_ranks(part, a.normed, n * h);
    }
    p.device.run(op::add{.y = out, .a = out, .b = a.normed, .n = n * h});
  }

  /// dx [t, hidden]: the gradient of y on entry, of x on return. Overwrites the activations `a`: after the weight
  /// gradient is computed, the gradient of an activation replaces it if only this layer reads it.
  template <class Device, class Place, class PlaceGradient>
  void backward(const pass<Device>& p, const block_activations& a, const block_scratch& d, float* dx, const float* x,
                Place&& place, PlaceGradient&& place_gradient) const {
    const timeline::span traced("layer backward", "tokens", p.tokens);
    const extent_t h = hidden();
    float *const slopes = p.share ? p.share->whole : nullptr, *const room = p.share ? p.share->other : nullptr;
    float* input = all_rows(p, a.post_attention_normed, room, h);
    if (experts) {
      experts.backward(p, a.routed, input, all_rows(p, dx, slopes, h), input);
      keep_own_rows(p, a.post_attention_normed, input, h);
    } else {
      feed_forward.backward(p, a.mixed, input, all_rows(p, dx, slopes, h), input);
      sum_rows_over_ranks(p, a.post_attention_normed, input, h);
    }
    backward_of_own_rows(p, post_attention_norm, dx, a.post_attention_normed, a.middle, a.middle_rstd);
    input = all_rows(p, a.normed, room, h);
    self_attention.backward(p, a.attended, input, all_rows(p, dx, slopes, h), input, d.dqkv, d.dattended, place,
                            place_gradient);
    sum_rows_over_ranks(p, a.normed, input, h);
    backward_of_own_rows(p, input_norm, dx, a.normed, x, a.rstd);
  }

  /// In an expert parallel pass a rank without rows calls these instead of forward() and backward().
  template <class Device>
  void idle_forward(const pass<Device>& p, const block_activations& a) const {
    if (experts && p.expert) experts.forward(p, a.routed, a.middle, a.post_attention_normed);
  }
  /// Replaces backward() in a rank without rows: its experts process the rows of other ranks.
  template <class Device>
  void join_collectives_backward(const pass<Device>& p, const block_activations& a) const {
    if (experts && p.expert) experts.backward(p, a.routed, a.middle, a.post_attention_normed, a.post_attention_normed);
  }

  /// Calls f(linear) for all linear layers, in the order of their weights.
  template <class F>
  void for_linears(F&& f) {
    for_linears_of(*this, f);
  }
  /// The const version.
  template <class F>
  void for_linears(F&& f) const {
    for_linears_of(*this, f);
  }

 private:
  template <class Block, class F>
  static void for_linears_of(Block& b, F&& f) {
    f(b.self_attention.qkv), f(b.self_attention.output);
    if (b.experts) {
      f(b.experts.router);
      for (auto& m : b.experts.each) f(m.gate_up), f(m.down);
    } else {
      f(b.feed_forward.gate_up), f(b.feed_forward.down);
    }
  }
};

/// Activations that fit any of the blocks, one at a time; t and local_rows as in block::take.
template <class Device>
block_activations take_for_any(std::span<const block> blocks, workspace<Device>& space, extent_t t,
                               extent_t local_rows) {
  block_activations a = blocks.front().take(space, t, local_rows);
  for (const block& b : blocks) {
    if (b.experts && !a.routed.routes) a.routed = b.experts.take(space, t);
    if (!b.experts && !a.mixed.gate_up) a.mixed = b.feed_forward.take(space, t);
  }
  return a;
}

}  // namespace nn
RLCORE_END
