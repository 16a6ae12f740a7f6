// One transformer layer: x + attention(norm(x)), then that + mlp(norm(that)).
#pragma once

#include <cstdint>

#include "rlcore/nn/attention.hpp"
#include "rlcore/nn/mlp.hpp"
#include "rlcore/nn/norm.hpp"
#include "rlcore/nn/pass.hpp"
#include "rlcore/nn/tensor_pass.hpp"

RLCORE_BEGIN
namespace nn {

struct block {
  norm input_norm, middle_norm;
  nn::attention mixer;
  nn::mlp feed_forward;

  extent_t hidden() const { return input_norm.width; }

  template <class Device>
  block_activations take(workspace<Device>& space, extent_t t) const {
    return take(space, t, t);
  }
  /// For t rows, of which this rank keeps `own` between layers.
  template <class Device>
  block_activations take(workspace<Device>& space, extent_t t, extent_t own) const {
    block_activations a;
    a.normed = space.template take<float>(own * hidden());
    a.rstd = space.template take<float>(own);
    a.attended = mixer.take(space, t);
    a.middle = space.template take<float>(own * hidden());
    a.middle_normed = space.template take<float>(own * hidden());
    a.middle_rstd = space.template take<float>(own);
    a.mixed = feed_forward.take(space, t);
    return a;
  }
  template <class Device>
  block_scratch take_scratch(workspace<Device>& space, extent_t t) const {
    return {space.template take<float>(t * mixer.width()), space.template take<float>(t * mixer.q_width())};
  }

  /// y [own rows, hidden] from x; y may not be x. `place` as in attention. Between the norms and the linear layers rows
  /// of all ranks come together and go apart (tensor_pass.hpp); in a serial pass nothing does.
  template <class Device, class Place>
  void forward(const pass<Device>& p, const block_activations& a, float* y, const float* x, Place&& place) const {
    const extent_t t = own_rows(p), h = hidden();
    float *const all = p.share ? p.share->whole : nullptr, *const part = p.share ? p.share->other : nullptr;
    input_norm.forward(p.device, p.weights, a.normed, h, x, h, a.rstd, t);
    mixer.forward(p, a.attended, partial_rows(p, y, part), all_rows(p, a.normed, all, h), place);
    sum_rows_over_ranks(p, y, part, h);
    middle_norm.forward_of_sum(p.device, p.weights, a.middle, x, y, a.middle_normed, a.middle_rstd, t);
    feed_forward.forward(p, a.mixed, partial_rows(p, y, part), all_rows(p, a.middle_normed, all, h));
    sum_rows_over_ranks(p, y, part, h);
    p.device.add(y, a.middle, y, t * h);
  }

  /// The rows `index` (device memory, n of them, no more than `a` was taken for) of what forward() writes, out [n,
  /// hidden]. The feed-forward layer works on those alone; `a` holds nothing for a backward then.
  template <class Device, class Place>
  void forward_rows(const pass<Device>& p, const block_activations& a, float* out, const float* x, Place&& place,
                    const std::int32_t* index, extent_t n) const {
    const extent_t t = p.tokens, h = hidden();
    input_norm.forward(p.device, p.weights, a.normed, h, x, h, a.rstd, t);
    mixer.forward(p, a.attended, a.middle_normed, a.normed, place);
    sum_over_ranks(p, a.middle_normed, t * h);
    p.device.add(a.middle, x, a.middle_normed, t * h);
    p.device.gather_rows(out, a.middle, index, n, h);
    middle_norm.forward(p.device, p.weights, a.middle_normed, h, out, h, a.middle_rstd, n);
    pass<Device> part = p;
    part.tokens = n;
    feed_forward.forward(part, a.mixed, a.normed, a.middle_normed);
    sum_over_ranks(part, a.normed, n * h);
    p.device.add(out, out, a.normed, n * h);
  }

  /// dx [t, hidden]: the gradient of y on entry, of x on return. Uses up the activations `a`: the gradient of what only
  /// the layer itself read takes its place, once the gradient of the weights has been taken.
  template <class Device, class Place, class PlaceGradient>
  void backward(const pass<Device>& p, const block_activations& a, const block_scratch& d, float* dx, const float* x,
                Place&& place, PlaceGradient&& place_gradient) const {
    const extent_t h = hidden();
    float *const slopes = p.share ? p.share->whole : nullptr, *const room = p.share ? p.share->other : nullptr;
    float* input = all_rows(p, a.middle_normed, room, h);
    feed_forward.backward(p, a.mixed, input, all_rows(p, dx, slopes, h), input);
    sum_rows_over_ranks(p, a.middle_normed, input, h);
    backward_of_own_rows(p, middle_norm, dx, a.middle_normed, a.middle, a.middle_rstd);
    input = all_rows(p, a.normed, room, h);
    mixer.backward(p, a.attended, input, all_rows(p, dx, slopes, h), input, d.dqkv, d.dattended, place, place_gradient);
    sum_rows_over_ranks(p, a.normed, input, h);
    backward_of_own_rows(p, input_norm, dx, a.normed, x, a.rstd);
  }
};

}  // namespace nn
RLCORE_END
