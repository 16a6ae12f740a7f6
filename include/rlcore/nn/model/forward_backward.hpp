// Training step, gradients of every parameter backward: log-probs and entropies of language models, one score per row
// of score models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "rlcore/nn/head/head_rows.hpp"
#include "rlcore/nn/model/backbone.hpp"
#include "rlcore/nn/model/gradients.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/objective/loop/device_batch.hpp"

RLCORE_BEGIN
namespace nn {

namespace detail {

/// Computes the slopes of n targets by slopes_on_device, in device memory; marks the needed targets.
template <class Device, class Slopes>
void take_slopes_on_device(Device& device, workspace<Device>& space, extent_t n, std::size_t wanted, float* logp,
                           float* entropy, float*& dlogp, float*& dentropy, const Slopes& slopes) {
  dlogp = take_slope_on_device(device, space, n, wanted), dentropy = take_slope_on_device(device, space, n, wanted);
  using read = device_view<const float, 1, Device>;
  using written = device_view<float, 1, Device>;
  slopes.f(read(logp, {n}), read(entropy, {n}), written(dlogp, {n}), written(dentropy, {n}));
  mark_needed(space.dlogp, slopes.needed, wanted);
  space.dentropy.assign(wanted, 0.0f);
}

/// Computes the slopes of n targets by a host function, into space.dlogp and space.dentropy.
template <class Device, class Slopes>
void take_slopes_on_host(backbone<Device>& body, Device& device, workspace<Device>& space, extent_t n,
                         std::size_t wanted, const float* logp, const float* entropy, Slopes& slopes) {
  const auto count = static_cast<std::size_t>(n);
  space.logp.resize(count), space.entropy.resize(count);
  space.dlogp.assign(wanted, 0.0f), space.dentropy.assign(wanted, 0.0f);
  device.download(space.logp.data(), logp, count * sizeof(float));
  device.download(space.entropy.data(), entropy, count * sizeof(float));
  body.gather(space.logp, wanted), body.gather(space.entropy, wanted);
  const std::span<const float> p(space.logp), h(space.entropy);
  const std::span<float> dp(space.dlogp), dh(space.dentropy);
  if constexpr (on_device<std::remove_cvref_t<Slopes>>)
    slopes.f(p, h, dp, dh);
  else
    slopes(p, h, dp, dh);
}

}  // namespace detail

/// Runs the model over packed sequences, calls
///   slopes(std::span<const float> logp, std::span<const float> entropy, std::span<float> dlogp, std::span<float>
///   dentropy)
/// (or what slopes_on_device holds) once with the values of all targets (as nn::log_probs; the gradients are 0 on
/// entry), and adds the gradient of the sum that `slopes` differentiated to `grads`. `recompute` (activation
/// checkpointing) keeps only each layer's input and recomputes the layer in its backward. The head's backward skips
/// targets whose two gradients are 0, and the layers' backward skips sequences with only such targets. No bit depends
/// on this, on `recompute`, on the workspace's limit for logits, or on the split of sequences into calls.
template <class Device, class Gradients, class Slopes>
void forward_backward(const causal_lm<Device>& model, workspace<Device>& space, Gradients& grads,
                      const input& sequences, const targets& wanted, float temperature, bool recompute,
                      Slopes&& slopes) {
  check_temperature(temperature);
  check_output(model, model_output::logits, "forward_backward");
  grads.check(model);
  check_targets(wanted, model.settings());
  backbone<Device> body(model, space, sequences, wanted.row, recompute);
  Device& device = model.device();
  const extent_t n = body.count();
  const std::span<const std::int32_t> tokens = body.local(wanted.token);
  float *logp = space.template take<float>(n), *entropy = space.template take<float>(n);
  float* statistics = space.template take<float>(2 * n);
  const head_rows<Device> scores(body.pass(), model.head(), temperature, n, space.logits_bytes(), true,
                                 &body.local(wanted.sampling_mask));
  const std::int32_t* token = scores.take_tokens(space, tokens);
  scores.forward(body.pass(), body.top().normed, token, n, logp, entropy, statistics);

  constexpr bool stays = detail::on_device<std::remove_cvref_t<Slopes>> && !Device::host_readable;
  head_slopes slope{n, scores.kept(), nullptr, token, nullptr, nullptr, entropy, statistics};
  float *dlogp = nullptr, *dentropy = nullptr;
  if constexpr (stays)
    detail::take_slopes_on_device(device, space, n, wanted.row.size(), logp, entropy, dlogp, dentropy, slopes);
  else
    detail::take_slopes_on_host(body, device, space, n, wanted.row.size(), logp, entropy, slopes);
  if (!body.find_active({&space.dlogp, &space.dentropy}, !grads.balance().empty())) return body.skip_backward(grads);
  const auto m = static_cast<extent_t>(space.active.size());

  body.begin_backward(grads);
  slope.n = m, slope.normed = body.top().normed;
  if (m < n) {
    slope.entropy = body.chosen(entropy, 1), slope.statistics = body.chosen(statistics, 2);
    space.ids_here.clear();
    for (const std::int32_t i : space.active) space.ids_here.push_back(tokens[static_cast<std::size_t>(i)]);
    slope.tokens = scores.take_tokens(space, space.ids_here);
    slope.kept = scores.move_kept(device, space.active);
    slope.active = space.active;
    for (std::size_t k = 0; k < space.active.size(); ++k) {
      space.dlogp[k] = space.dlogp[static_cast<std::size_t>(space.active[k])];
      space.dentropy[k] = space.dentropy[static_cast<std::size_t>(space.active[k])];
    }
  }
  if (stays)
    slope.dlogp = body.chosen(dlogp, 1), slope.dentropy = body.chosen(dentropy, 1);
  else
    slope.dlogp = space.take_copy(space.dlogp.data(), m), slope.dentropy = space.take_copy(space.dentropy.data(), m);
  float* dnormed = space.template take<float>(m * static_cast<extent_t>(model.settings().hidden_size));
  scores.backward(body.pass(), slope, dnormed);
  body.backward(grads, dnormed);
}

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
  float* device_slopes = nullptr;
  if constexpr (stays) {
    device_slopes = detail::take_slope_on_device(model.device(), space, n, rows.size());
    slopes.f(device_view<const float, 1, Device>(value, {n}), device_view<float, 1, Device>(device_slopes, {n}));
    detail::mark_needed(space.dlogp, slopes.needed, rows.size());
  } else {
    detail::take_value_slopes_on_host(body, model.device(), space, n, rows.size(), value, slopes);
  }
  if (!body.find_active({&space.dlogp}, !grads.balance().empty())) return body.skip_backward(grads);

  body.begin_backward(grads);
  if (!stays)
    for (std::size_t k = 0; k < space.active.size(); ++k)
      space.dlogp[k] = space.dlogp[static_cast<std::size_t>(space.active[k])];
  const float* dvalue = stays ? body.chosen(device_slopes, 1) : space.take_copy(space.dlogp.data(), body.count());
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

/// Adds the choices of every token of the sequences in every layer with experts. The load-balancing loss is over all
/// tokens of an optimizer step; with its counts known before the first backward, the gradient is a plain sum over
/// tokens, and its bits do not depend on the split into micro-batches, leaves and ranks. If one micro-batch is the
/// whole step, workspace::routed has the counts between forward and backward.
template <class Device>
void count_routes(const causal_lm<Device>& model, workspace<Device>& space, const input& sequences,
                  router_counts& counts) {
  backbone<Device> forward(model, space, sequences, std::span<const std::int32_t>(), true);
  struct {
    void leave_zero(std::size_t) {}
  } nothing;
  if (!model.pipeline()) forward.skip_backward(nothing);  // no stage waits for a backward
  counts += space.routed;
}

/// The experts of every token of the sequences, for input::routed_experts of later passes (router replay): ids
/// [tokens, layers with experts, experts per token], most likely first; expert_choices::no_expert where other context
/// ranks or stages have them.
template <class Device>
std::vector<std::int16_t> chosen_experts(const causal_lm<Device>& model, workspace<Device>& space,
                                         const input& sequences) {
  router_counts counts;
  count_routes(model, space, sequences, counts);
  return space.chosen_experts;
}

}  // namespace nn
RLCORE_END
