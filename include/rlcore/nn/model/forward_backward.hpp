// Training: log-probs and entropies forward, their gradients backward into every parameter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/nn/head/head_rows.hpp"
#include "rlcore/nn/model/backbone.hpp"
#include "rlcore/nn/model/gradients.hpp"
#include "rlcore/nn/model/log_probs.hpp"

RLCORE_BEGIN
namespace nn {

/// Runs the model over packed sequences, calls
///   slopes(std::span<const float> logp, std::span<const float> entropy, std::span<float> dlogp, std::span<float>
///   dentropy)
/// once with the values of all targets (as nn::log_probs; the gradients are 0 on entry), and adds the gradient of the
/// sum that `slopes` differentiated to `grads`. `recompute` keeps only each layer's input and runs the layer again
/// before its backward. The head's backward skips targets whose two gradients are 0, and the layers' backward skips
/// sequences that have only such targets. No bit depends on that, on `recompute`, on the workspace's limit for logits,
/// or on the split of sequences into calls.
template <class Device, class Gradients, class Slopes>
void forward_backward(const causal_lm<Device>& model, workspace<Device>& space, Gradients& grads,
                      const ragged<std::int32_t>& sequences, const targets& wanted, float temperature, bool recompute,
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

  const auto count = static_cast<std::size_t>(n), wanted_count = wanted.row.size();
  space.logp.resize(count), space.entropy.resize(count);
  space.dlogp.assign(wanted_count, 0.0f), space.dentropy.assign(wanted_count, 0.0f);
  device.download(space.logp.data(), logp, count * sizeof(float));
  device.download(space.entropy.data(), entropy, count * sizeof(float));
  body.gather(space.logp, wanted_count), body.gather(space.entropy, wanted_count);
  slopes(std::span<const float>(space.logp), std::span<const float>(space.entropy), std::span<float>(space.dlogp),
         std::span<float>(space.dentropy));
  if (!body.find_active({&space.dlogp, &space.dentropy}, !grads.balance().empty())) return body.skip_backward(grads);
  const auto m = static_cast<extent_t>(space.active.size());

  body.begin_backward(grads);
  head_slopes slope{m, scores.kept(), body.top().normed, token, nullptr, nullptr, entropy, statistics};
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
  slope.dlogp = space.take_copy(space.dlogp.data(), m), slope.dentropy = space.take_copy(space.dentropy.data(), m);
  float* dnormed = space.template take<float>(m * static_cast<extent_t>(model.settings().hidden_size));
  scores.backward(body.pass(), slope, dnormed);
  body.backward(grads, dnormed);
}

}  // namespace nn
RLCORE_END
