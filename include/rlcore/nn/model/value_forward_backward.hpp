// Training step of score models (value, reward): one score per row forward, gradients of every parameter backward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "rlcore/nn/model/backbone.hpp"
#include "rlcore/nn/model/gradients.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/nn/model/slopes_on_device.hpp"
#include "rlcore/objective/loop/device_batch.hpp"

RLCORE_BEGIN
namespace nn {

namespace detail {

/// Computes the slopes of n values by a host function, into space.dlogp.
template <class Device, class Slopes>
void take_value_slopes_on_host(backbone<Device>& body, Device& device, workspace<Device>& space, extent_t n,
                               std::size_t wanted, const float* value, Slopes& slopes) {
  const auto count = static_cast<std::size_t>(n);
  space.logp.resize(count);
  space.dlogp.assign(wanted, 0.0f);
  device.download(space.logp.data(), value, count * sizeof(float));
  body.gather(space.logp, wanted);
  const std::span<const float> v(space.logp);
  const std::span<float> dv(space.dlogp);
  if constexpr (on_device<std::remove_cvref_t<Slopes>>)
    slopes.f(v, dv);
  else
    slopes(v, dv);
}

}  // namespace detail

/// As forward_backward for a score model: calls slopes(std::span<const float> value, std::span<float> dvalue) once with
/// the values of `rows` (as nn::values; dvalue is 0 on entry), or what slopes_on_device holds, and adds the gradient of
/// the sum that `slopes` differentiated to `grads`. Rows must ascend for gradients that do not depend on the split of
/// sequences into batches. The head's backward skips rows with gradient 0, and the layers' backward skips sequences
/// with only such rows. No bit depends on this, on `recompute`, or on the split of sequences into calls.
template <class Device, class Gradients, class Slopes>
void value_forward_backward(const causal_lm<Device>& model, workspace<Device>& space, Gradients& grads,
                            const input& sequences, std::span<const std::int32_t> rows, bool recompute,
                            Slopes&& slopes) {
  check_output(model, model_output::score, "value_forward_backward");
  grads.check(model);
  backbone<Device> body(model, space, sequences, rows, recompute);
  const linear& output = model.head().output;
  const extent_t n = body.count();
  float* value = space.template take<float>(n);
  output.forward(body.pass(), value, body.top().normed, n);

  constexpr bool stays = detail::on_device<std::remove_cvref_t<Slopes>> && !Device::host_readable;
  float* there = nullptr;
  if constexpr (stays) {
    there = detail::take_slope_on_device(model.device(), space, n, rows.size());
    slopes.f(device_view<const float, 1, Device>(value, {n}), device_view<float, 1, Device>(there, {n}));
    detail::mark_needed(space.dlogp, slopes.needed, rows.size());
  } else {
    detail::take_value_slopes_on_host(body, model.device(), space, n, rows.size(), value, slopes);
  }
  if (!body.find_active({&space.dlogp}, !grads.balance().empty())) return body.skip_backward(grads);

  body.begin_backward(grads);
  if (!stays)
    for (std::size_t k = 0; k < space.active.size(); ++k)
      space.dlogp[k] = space.dlogp[static_cast<std::size_t>(space.active[k])];
  const float* dvalue = stays ? body.chosen(there, 1) : space.take_copy(space.dlogp.data(), body.count());
  float* dnormed = space.template take<float>(body.count() * output.inputs);
  if (body.count() > 0) {  // as always on one rank
    const score_gradient slope = grads.score(output, body.pass());
    Device& device = model.device();
    device.run(op::linear_backward_weight{.dweight = slope.weight,
                                          .dy = dvalue,
                                          .x = body.top().normed,
                                          .rows = body.count(),
                                          .outputs = 1,
                                          .inputs = output.inputs,
                                          .accumulate = slope.add});
    if (slope.bias) device.run(op::sum_rows{.total = slope.bias, .x = dvalue, .rows = body.count(), .width = 1});
    device.run(op::linear_backward_input{.dx = dnormed,
                                         .dy = dvalue,
                                         .weight = body.pass().weights + output.weight,
                                         .rows = body.count(),
                                         .outputs = 1,
                                         .inputs = output.inputs});
  }
  body.backward(grads, dnormed);
}

}  // namespace nn
RLCORE_END
