// Scoring: log-probs of given tokens without gradients, in little memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "rlcore/nn/causal_lm.hpp"
#include "rlcore/nn/head_rows.hpp"
#include "rlcore/nn/packed_batch.hpp"

RLCORE_BEGIN
namespace nn {

/// Rows of logits that fit the workspace's limit.
template <class Device>
extent_t logit_rows(const causal_lm<Device>& model, const workspace<Device>& space, extent_t rows) {
  const auto row_bytes = static_cast<std::size_t>(model.settings().vocab_size) * sizeof(float);
  return std::max<extent_t>(1, std::min(rows, static_cast<extent_t>(space.logits_bytes() / row_bytes)));
}

inline void check_temperature(float temperature) {
  if (!(temperature > 0))
    throw std::invalid_argument("rlcore: temperature must be positive, got " + std::to_string(temperature));
}

/// With z the logits at row[i] divided by `temperature` and p = softmax(z): logp[i] = z[token[i]] - logsumexp(z) and,
/// unless `entropy` is empty, entropy[i] = logsumexp(z) - sum p z. Keeps the activations of one layer and a tile of
/// logits, at most workspace::logits_bytes() and 8 MiB.
template <class Device>
void log_probs(const causal_lm<Device>& model, workspace<Device>& space, const ragged<std::int32_t>& sequences,
               const targets& wanted, float temperature, std::span<float> logp, std::span<float> entropy) {
  const auto n = static_cast<extent_t>(wanted.row.size());
  check_temperature(temperature);
  if (std::ssize(logp) != n || (std::ssize(entropy) != n && !entropy.empty()))
    throw std::invalid_argument("rlcore: log_probs: " + std::to_string(n) + " targets, room for " +
                                std::to_string(logp.size()) + " log-probs and " + std::to_string(entropy.size()) +
                                " entropies");
  space.reset();
  const packed_batch<Device> batch(model, space, sequences, wanted);
  if (n == 0) return;
  Device& device = model.device();
  const auto h = static_cast<extent_t>(model.settings().hidden_size);
  const pass<Device> p{device, space, model.weights().data(), model.packed(), nullptr, batch.tokens, batch.positions};

  float *x = space.template take<float>(batch.tokens * h), *y = space.template take<float>(batch.tokens * h);
  device.gather_rows(x, p.weights, batch.ids, batch.tokens, h);
  const block_activations a = model.blocks().front().take(space, std::max(batch.tokens, n));
  const std::span<const block> blocks = model.blocks();
  for (const block& b : blocks.first(blocks.size() - 1)) {
    b.forward(p, a, y, x, place_in_rows(space, b.mixer));
    std::swap(x, y);
  }
  float* last = space.template take<float>(n * h);
  blocks.back().forward_rows(p, a, last, x, place_in_rows(space, blocks.back().mixer),
                             space.take_copy(wanted.row.data(), n), n);
  const head_activations rows = model.head().normed(p, last, n);
  const std::int32_t* tokens = space.take_copy(wanted.token.data(), n);
  float* results = space.template take<float>(2 * n);
  const head_rows<Device> scores(p, model.head(), temperature, n, space.logits_bytes(), false);
  scores.forward(p, rows.normed, tokens, n, results, entropy.empty() ? nullptr : results + n, nullptr);
  device.download(logp.data(), results, logp.size_bytes());
  if (!entropy.empty()) device.download(entropy.data(), results + n, entropy.size_bytes());
}

}  // namespace nn
RLCORE_END
