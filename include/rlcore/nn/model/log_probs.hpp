// Scoring: log-probs of given tokens without gradients, in little memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "rlcore/nn/head/head_rows.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/normed_rows.hpp"

RLCORE_BEGIN
namespace nn {

/// Rows of logits that fit the workspace's limit.
template <class Device>
extent_t logit_rows(const causal_lm<Device>& model, const workspace<Device>& space, extent_t rows) {
  const auto row_bytes = static_cast<std::size_t>(model.settings().vocab_size) * sizeof(float);
  return std::max<extent_t>(1, std::min(rows, static_cast<extent_t>(space.logits_bytes() / row_bytes)));
}

/// Throws std::invalid_argument unless the temperature is positive.
inline void check_temperature(float temperature) {
  if (!(temperature > 0))
    throw std::invalid_argument("rlcore: temperature must be positive, got " + std::to_string(temperature));
}

/// With z the logits at row[i] divided by `temperature` and p = softmax(z): logp[i] = z[token[i]] - logsumexp(z) and,
/// unless `entropy` is empty, entropy[i] = logsumexp(z) - sum p z. Keeps the activations of one layer and a tile of
/// logits, at most workspace::logits_bytes() and 8 MiB.
template <class Device>
void log_probs(const causal_lm<Device>& model, workspace<Device>& space, const input& sequences, const targets& wanted,
               float temperature, std::span<float> logp, std::span<float> entropy) {
  const auto count = static_cast<extent_t>(wanted.row.size());
  check_temperature(temperature);
  if (std::ssize(logp) != count || (std::ssize(entropy) != count && !entropy.empty()))
    throw std::invalid_argument("rlcore: log_probs: " + std::to_string(count) + " targets, room for " +
                                std::to_string(logp.size()) + " log-probs and " + std::to_string(entropy.size()) +
                                " entropies");
  check_output(model, model_output::logits, "log_probs");
  check_targets(wanted, model.settings());
  normed_rows<Device> body(model, space, sequences, wanted.row);
  if (count == 0) return;
  const extent_t n = body.count;
  float* results = space.template take<float>(2 * n);
  const head_rows<Device> scores(body.pass, model.head(), temperature, n, space.logits_bytes(), false);
  const std::int32_t* tokens = scores.take_tokens(space, body.local(wanted.token));
  scores.forward(body.pass, body.normed, tokens, n, results, entropy.empty() ? nullptr : results + n, nullptr);
  body.download(logp, results);
  if (!entropy.empty()) body.download(entropy, results + n);
}

}  // namespace nn
RLCORE_END
