// Training of score models: one number per chosen row forward, its gradient backward into every parameter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rlcore/nn/model/backbone.hpp"
#include "rlcore/nn/model/gradients.hpp"
#include "rlcore/nn/model/values.hpp"

RLCORE_BEGIN
namespace nn {

/// As forward_backward for a score model: calls slopes(std::span<const float> value, std::span<float> dvalue) once with
/// the values of `rows` (as nn::values; dvalue is 0 on entry) and adds the gradient of the sum that `slopes`
/// differentiated to `grads`. Rows ascend when gradients shall not depend on how sequences are split into batches. Rows
/// whose gradient is 0 cost nothing in the head's backward, and sequences without another row nothing in the layers'.
/// Neither that, nor `recompute`, nor the split of sequences into calls changes a bit.
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

  const auto count = static_cast<std::size_t>(n);
  space.logp.resize(count);
  space.dlogp.assign(rows.size(), 0.0f);
  model.device().download(space.logp.data(), value, count * sizeof(float));
  body.gather(space.logp, rows.size());
  slopes(std::span<const float>(space.logp), std::span<float>(space.dlogp));
  if (!body.find_active({&space.dlogp}, !grads.balance().empty())) return body.skip_backward(grads);

  body.begin_backward(grads);
  for (std::size_t k = 0; k < space.active.size(); ++k)
    space.dlogp[k] = space.dlogp[static_cast<std::size_t>(space.active[k])];
  const float* dvalue = space.take_copy(space.dlogp.data(), body.count());
  float* dnormed = space.template take<float>(body.count() * output.inputs);
  if (body.count() > 0) {  // as always on one rank
    const score_gradient slope = grads.score(output, body.pass());
    Device& device = model.device();
    device.linear_backward_weight(slope.weight, dvalue, body.top().normed, body.count(), 1, output.inputs, slope.add);
    if (slope.bias) device.sum_rows(slope.bias, dvalue, body.count(), 1);
    device.linear_backward_input(dnormed, dvalue, body.pass().weights + output.weight, body.count(), 1, output.inputs,
                                 false);
  }
  body.backward(grads, dnormed);
}

}  // namespace nn
RLCORE_END
