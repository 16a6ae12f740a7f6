// Training: log-probs and entropies forward, their gradients backward into every parameter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/nn/active_rows.hpp"
#include "rlcore/nn/causal_lm.hpp"
#include "rlcore/nn/gradients.hpp"
#include "rlcore/nn/head_rows.hpp"
#include "rlcore/nn/log_probs.hpp"
#include "rlcore/nn/packed_batch.hpp"

RLCORE_BEGIN
namespace nn {

/// Runs the model over packed sequences, calls
///   slopes(std::span<const float> logp, std::span<const float> entropy, std::span<float> dlogp, std::span<float>
///   dentropy)
/// once with the values of all targets (as nn::log_probs; the gradients are 0 on entry), and adds the gradient of the
/// sum that `slopes` differentiated to `grads`. `recompute` keeps only each layer's input and runs the layer again
/// before its backward. Targets whose two gradients are 0 cost nothing in the head's backward, and sequences without
/// another target nothing in the layers'. Neither that, nor `recompute`, the workspace's limit for logits, or the split
/// of sequences into calls changes a bit.
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
  const auto h = static_cast<extent_t>(model.settings().hidden_size);
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
  float *logp = space.template take<float>(n), *entropy = space.template take<float>(n);
  float* statistics = space.template take<float>(2 * n);
  const head_rows<Device> scores(p, model.head(), temperature, n, space.logits_bytes(), true);
  scores.forward(p, rows.normed, token, n, logp, entropy, statistics);

  const auto count = static_cast<std::size_t>(n);
  space.logp.resize(count), space.entropy.resize(count);
  space.dlogp.assign(count, 0.0f), space.dentropy.assign(count, 0.0f);
  device.download(space.logp.data(), logp, count * sizeof(float));
  device.download(space.entropy.data(), entropy, count * sizeof(float));
  slopes(std::span<const float>(space.logp), std::span<const float>(space.entropy), std::span<float>(space.dlogp),
         std::span<float>(space.dentropy));
  find_active_rows(space, wanted);
  const auto m = static_cast<extent_t>(space.active.size());
  if (m == 0) return;

  // Backward: the head's rows that have a gradient, side by side, then the layers from the last to the first.
  const auto start = grads.begin();
  p.gradients = start.data, p.first = start.first;
  head_slopes slope{m, scores.kept(), rows.normed, token, nullptr, nullptr, entropy, statistics};
  const float *hidden = rows.rows, *rstd = rows.rstd;
  if (m < n) {
    const std::int32_t* index = space.take_copy(space.active.data(), m);
    const auto chosen = [&](const float* from, extent_t width) {
      float* to = space.template take<float>(m * width);
      device.gather_rows(to, from, index, m, width);
      return to;
    };
    slope.normed = chosen(rows.normed, h), hidden = chosen(rows.rows, h), rstd = chosen(rows.rstd, 1);
    slope.entropy = chosen(entropy, 1), slope.statistics = chosen(statistics, 2);
    const auto chosen_of = [&](const std::vector<std::int32_t>& all) {
      space.index.clear();
      for (const std::int32_t i : space.active) space.index.push_back(all[static_cast<std::size_t>(i)]);
      return space.take_copy(space.index.data(), m);
    };
    token = chosen_of(wanted.token), row = chosen_of(wanted.row);
    slope.tokens = token;
    slope.kept = scores.move_kept(device, space.active);
    for (std::size_t k = 0; k < space.active.size(); ++k) {
      space.dlogp[k] = space.dlogp[static_cast<std::size_t>(space.active[k])];
      space.dentropy[k] = space.dentropy[static_cast<std::size_t>(space.active[k])];
    }
  }
  slope.dlogp = space.take_copy(space.dlogp.data(), m), slope.dentropy = space.take_copy(space.dentropy.data(), m);
  float* dnormed = space.template take<float>(m * h);
  scores.backward(p, slope, dnormed);
  model.head().final_norm.backward(device, p.weights, p.gradients, dnormed, dnormed, h, hidden, h, rstd, m, false);
  float* dx = space.template take<float>(t * h);
  device.fill_zero(dx, static_cast<std::size_t>(t * h) * sizeof(float));
  device.scatter_add_rows(dx, dnormed, row, m, h);

  const block_scratch scratch = blocks.front().take_scratch(space, t);
  float* again = recompute ? space.template take<float>(t * h) : nullptr;
  for (std::size_t l = layers; l-- > 0;)
    for_active_rows(p, [&](const pass<Device>& part, extent_t begin) {
      const auto place = place_in_rows(space, blocks[l].mixer);
      const float* input = x(l) + begin * h;
      if (recompute) blocks[l].forward(part, kept[0], again, input, place);
      blocks[l].backward(part, recompute ? kept[0] : rows_from(blocks[l], kept[l], begin), scratch, dx + begin * h,
                         input, place, place_gradients_in_rows(space, blocks[l].mixer));
    });
  grads.add_embedding(space, sequences.values.data(), dx, t);
  device.wait();
}

}  // namespace nn
RLCORE_END
