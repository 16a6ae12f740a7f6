// Training step: log-probs and entropies forward, gradients of every parameter backward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "rlcore/nn/head/head_rows.hpp"
#include "rlcore/nn/model/backbone.hpp"
#include "rlcore/nn/model/gradients.hpp"
#include "rlcore/nn/model/log_probs_on_device.hpp"
#include "rlcore/nn/model/slopes_on_device.hpp"
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
  const head_rows<Device> scores(body.pass(), model.head(), temperature, n, space.logits_bytes(), true);
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

}  // namespace nn
RLCORE_END
