// Training: log-probs and entropies forward, their gradients backward into every parameter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/nn/causal_lm.hpp"
#include "rlcore/nn/gradients.hpp"
#include "rlcore/nn/log_probs.hpp"
#include "rlcore/nn/packed_batch.hpp"

RLCORE_BEGIN
namespace nn {

/// Runs the model over packed sequences, calls
///   slopes(std::span<const float> logp, std::span<const float> entropy, std::span<float> dlogp, std::span<float>
///   dentropy)
/// once with the values of all targets (as nn::log_probs; the gradients are 0 on entry), and adds the gradient of the
/// sum that `slopes` differentiated to `grads`. `recompute` keeps only each layer's input and runs the layer again
/// before its backward. Neither `recompute`, the workspace's limit for logits, nor the split of sequences into calls
/// changes a bit.
template <class Device, class Slopes>
void forward_backward(const causal_lm<Device>& model, workspace<Device>& space, gradients<Device>& grads,
                      const ragged<std::int32_t>& sequences, const targets& wanted, float temperature, bool recompute,
                      Slopes&& slopes) {
  check_temperature(temperature);
  if (grads.size() != model.size())
    throw std::invalid_argument("rlcore: gradients of " + std::to_string(grads.size()) + " values for a model of " +
                                std::to_string(model.size()));
  space.reset();
  const packed_batch<Device> batch(model, space, sequences, wanted);
  Device& device = model.device();
  const extent_t t = batch.tokens, n = static_cast<extent_t>(wanted.row.size());
  const auto h = static_cast<extent_t>(model.settings().hidden_size),
             v = static_cast<extent_t>(model.settings().vocab_size);
  pass<Device> p{device, space, model.weights().data(), model.packed(), nullptr, t, batch.positions};
  const std::span<const block> blocks = model.blocks();
  const std::size_t layers = blocks.size();

  // Forward. x(l) is the input of layer l, x(layers) the final hidden states.
  float* inputs = space.template take<float>(static_cast<extent_t>(layers + 1) * t * h);
  const auto x = [&](std::size_t l) { return inputs + static_cast<extent_t>(l) * t * h; };
  space.kept.clear();
  for (std::size_t l = 0; l < (recompute ? 1 : layers); ++l) space.kept.push_back(blocks[l].take(space, t));
  const std::vector<block_activations>& kept = space.kept;
  device.gather_rows(x(0), p.weights, batch.ids, t, h);
  for (std::size_t l = 0; l < layers; ++l)
    blocks[l].forward(p, kept[recompute ? 0 : l], x(l + 1), x(l), place_in_rows(space, blocks[l].mixer));

  const std::int32_t *row = space.take_copy(wanted.row.data(), n), *token = space.take_copy(wanted.token.data(), n);
  const head_activations rows = model.head().gather(p, x(layers), row, n);
  const extent_t chunk = logit_rows(model, space, n);
  float *logits = space.template take<float>(chunk * v), *logp = space.template take<float>(n);
  float *entropy = space.template take<float>(n), *statistics = space.template take<float>(2 * n);
  const auto score = [&](extent_t i, extent_t m) {
    model.head().forward(p, logits, rows.normed + i * h, m);
    device.log_prob_forward(logits, m, v, token + i, temperature, logp + i, entropy + i, statistics + 2 * i);
  };
  for (extent_t i = 0; i < n; i += chunk) score(i, std::min(chunk, n - i));

  const auto count = static_cast<std::size_t>(n);
  space.logp.resize(count), space.entropy.resize(count);
  space.dlogp.assign(count, 0.0f), space.dentropy.assign(count, 0.0f);
  device.download(space.logp.data(), logp, count * sizeof(float));
  device.download(space.entropy.data(), entropy, count * sizeof(float));
  slopes(std::span<const float>(space.logp), std::span<const float>(space.entropy), std::span<float>(space.dlogp),
         std::span<float>(space.dentropy));
  if (n == 0) return;
  const float *dlogp = space.take_copy(space.dlogp.data(), n), *dentropy = space.take_copy(space.dentropy.data(), n);

  // Backward: head in chunks, then the layers from the last to the first.
  const auto start = grads.begin();
  p.gradients = start.data, p.first = start.first;
  const head& top = model.head();
  float* dnormed = space.template take<float>(n * h);
  for (extent_t i = 0; i < n; i += chunk) {
    const extent_t m = std::min(chunk, n - i);
    if (chunk < n) score(i, m);
    device.log_prob_backward(logits, m, v, 0, token + i, temperature, dlogp + i, dentropy + i, entropy + i,
                             statistics + 2 * i);
    pass<Device> part = p;
    part.first = p.first && i == 0;
    top.logits.backward(part, dnormed + i * h, logits, rows.normed + i * h, m);
  }
  top.final_norm.backward(device, p.weights, p.gradients, dnormed, dnormed, h, rows.rows, h, rows.rstd, n, false);
  float* dx = space.template take<float>(t * h);
  device.fill_zero(dx, static_cast<std::size_t>(t * h) * sizeof(float));
  device.scatter_add_rows(dx, dnormed, row, n, h);

  const block_scratch scratch = blocks.front().take_scratch(space, t);
  float* again = recompute ? space.template take<float>(t * h) : nullptr;
  for (std::size_t l = layers; l-- > 0;) {
    const auto place = place_in_rows(space, blocks[l].mixer);
    if (recompute) blocks[l].forward(p, kept[0], again, x(l), place);
    blocks[l].backward(p, kept[recompute ? 0 : l], scratch, dx, x(l), place,
                       place_gradients_in_rows(space, blocks[l].mixer));
  }
  grads.add_embedding(space, sequences.values.data(), dx, t);
  device.wait();
}

}  // namespace nn
RLCORE_END
